package io.weir.jobs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.Trace.Event;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/**
 * Windows of jobs that read late, slowly or with pauses, of clocks that are ahead, and of spools:
 * what came in time is in the rows, and no row says more than it holds.
 */
class LatenessTest {
  private static final Pattern FIELD = Pattern.compile("(\\w+)=(\\S+)");

  private final List<String> trace = new ArrayList<>();

  private void at(double second, String text) {
    trace.add(String.format(Locale.ROOT, "%.3f %s", second, text));
  }

  /** An interval of a worker, with one flow. */
  private void interval(String worker, int start, int octets) {
    at(
        start + 5,
        "batch "
            + worker
            + " 10.1.0."
            + worker.charAt(1)
            + ":1024>192.0.2.1:80/6 1,"
            + octets
            + ",0,0");
    at(start + 11, "close " + worker);
  }

  /** Two probes with a flow in every interval: of 1,000 octets, and of so many. */
  private void two(int seconds, int octets) {
    enrol("p1", "p2");
    for (int s = 0; s < seconds; s += 10) {
      interval("p1/0", s, 1000);
      interval("p2/0", s, octets);
    }
  }

  private void enrol(String... probes) {
    at(0, "prefix 10.1.0.0/16 id=1 customer=1 site=s1 national");
    for (String probe : probes) {
      at(0, "probe " + probe);
      at(0, "declare " + probe + " site=s1");
    }
  }

  private void sort() {
    trace.sort(Comparator.comparingDouble(line -> Double.parseDouble(line.split(" ", 2)[0])));
  }

  private List<String> run(String job, UnaryOperator<List<Event>> change) throws Exception {
    sort();
    List<Event> events = change.apply(Trace.read("trace", trace));
    return TraceJobs.run(trace, events, TraceJobs.BY_FOLDER.get(job), Set.of()).lines();
  }

  private static Map<String, String> fields(String line) {
    Map<String, String> fields = new TreeMap<>();
    FIELD.matcher(line).results().forEach(found -> fields.put(found.group(1), found.group(2)));
    return fields;
  }

  /** "octets reported/expected" of the newest row of all traffic, by "ts probe". */
  private static Map<String, String> mixes(List<String> lines) {
    Map<String, Integer> versions = new TreeMap<>();
    Map<String, String> newest = new TreeMap<>();
    for (String line : lines) {
      Map<String, String> row = fields(line);
      if ("1".equals(row.get("dimension")) && !"3".equals(row.get("scope"))) {
        String key = row.get("ts") + " " + row.getOrDefault("probe", "all");
        int version = Integer.parseInt(row.get("version"));
        if (version >= versions.getOrDefault(key, 0)) { // of equal ones the store keeps the last
          versions.put(key, version);
          newest.put(
              key,
              row.getOrDefault("octets", "0")
                  + " "
                  + row.getOrDefault("probes_reported", "0")
                  + "/"
                  + row.get("probes_expected"));
        }
      }
    }
    return newest;
  }

  private static boolean isData(Event event) {
    return event.message() != null && event.message().topic().startsWith("weir.flows");
  }

  /** The jobs read at half of real time (a flood, say) while a worker's batches come late. */
  @Test
  void lateDataDoesNotShrinkTheMixOfSlowJobs() throws Exception {
    String[] probes = {"p1", "p2", "p3", "p4", "p5", "p6"};
    enrol(probes);
    for (String probe : probes) {
      for (int s = 0; s < 1500; s += 10) {
        if (probe.equals("p1") && s == 640) {
          for (int i = 0; i < 5; i++) {
            at(s + 6, "lost-batch p1/0 10.1.0.9:1024>192.0.2.3:80/6 1,7,0,0");
          }
        }
        interval(probe + "/0", s, 1000);
      }
    }
    for (int i = 0; i < 5; i++) {
      at(940 + (i == 0 ? 0 : 20 + 10 * i), "late p1/0 " + i);
    }
    at(6000, "now");
    long from = Trace.BASE_MS + 100_000;
    List<String> lines =
        run(
            "mixes",
            events -> {
              List<Event> slow = new ArrayList<>();
              for (Event event : events) {
                long turn =
                    isData(event) ? 10_000L * (event.message().topic().charAt(12) - '1') : 0;
                slow.add(
                    isData(event) && event.at() > from
                        ? new Event(2 * event.at() - from + turn, event.message(), null)
                        : event);
              }
              slow.sort(Comparator.comparingLong(Event::at));
              return slow;
            });
    assertEquals("6035 1/1", mixes(lines).get("00:10:00Z p1"));
    assertEquals("36035 6/6", mixes(lines).get("00:10:00Z all"));
  }

  /** Eight minutes in which the jobs run and read nothing, because the store is away. */
  @Test
  void whatCameInTimeIsInTheWindowsAfterAStall() throws Exception {
    two(1500, 100);
    at(3000, "now");
    long begin = Trace.BASE_MS + 620_000;
    long back = begin + 500_000;
    List<String> lines =
        run(
            "mixes",
            events -> {
              List<Event> all = new ArrayList<>();
              for (Event event : events) {
                boolean behind = isData(event) && event.message().topic().endsWith("p2");
                boolean held =
                    isData(event)
                        && event.at() >= begin - (behind ? 20_000 : 0)
                        && event.at() < back;
                all.add(held ? new Event(back, event.message(), null) : event);
              }
              Collections.sort(all, Comparator.comparingLong(Event::at));
              return all;
            });
    for (int minute = 5; minute < 24; minute++) {
      String ts = String.format(Locale.ROOT, "00:%02d:00Z", minute);
      assertEquals("6600", mixes(lines).get(ts + " all").split(" ", 2)[0], ts);
    }
  }

  /** A clock an hour ahead for one interval; the probe is silent from 600 s on. */
  @Test
  void aSilentProbeIsNotReportedBecauseItsClockWasOnceAhead() throws Exception {
    enrol("p1", "p2");
    for (int s = 0; s < 1500; s += 10) {
      if (s == 30) {
        at(s + 1, "to p1/0 3600");
      }
      if (s == 40) {
        at(s + 4, "to p1/0 40");
      }
      if (s < 600) {
        interval("p1/0", s, 1000);
      }
      interval("p2/0", s, 1);
    }
    at(2500, "now");
    assertEquals("6 1/2", mixes(run("mixes", events -> events)).get("00:15:00Z all"));
  }

  /** A clock an hour ahead for five minutes, then set right: an hour later its records count. */
  @Test
  void aClockThatWasAheadCostsNothingWhenItsTimeComes() throws Exception {
    enrol("p1", "p2");
    at(1, "to p1/0 3600");
    for (int s = 0; s < 4200; s += 10) {
      if (s == 310) {
        at(s + 2, "restart p1/0");
        at(s + 2, "to p1/0 310");
      }
      interval("p1/0", s, 1000);
      interval("p2/0", s, 1);
    }
    at(5500, "now");
    String row = mixes(run("mixes", events -> events)).get("01:02:00Z all");
    assertTrue(row.startsWith("6006 ") || row.startsWith("12006 "), row);
  }

  /** An hour's downtime; the backlog is read at 20 times real time, with a pause of 20 s. */
  private List<String> catchUp(String job, int pauseS) throws Exception {
    enrol("p1", "p2", "p3", "p4");
    for (int p = 1; p <= 4; p++) {
      for (int s = 0; s < 3900; s += 10) {
        interval("p" + p + "/0", s, 1000);
        at(s + 10.9, "counters p" + p + "/0 web/in=1,1000");
      }
    }
    at(6000, "now");
    sort();
    long down = Trace.BASE_MS + 604_000;
    long back = down + 3_600_000;
    List<Event> live = new ArrayList<>();
    List<Event> later = new ArrayList<>();
    for (Event event : Trace.read("trace", trace)) {
      boolean data =
          event.message() != null && event.message().topic().matches("weir\\.(flows|counters).*");
      if (event.at() < down) {
        live.add(event);
      } else if (data) {
        String topic = event.message().topic();
        int probe = topic.charAt(topic.length() - 1) - '1';
        long at = back + (event.at() - down) / 20 + probe * 2_000L; // 40 s of the backlog apart
        later.add(new Event(at > back + 90_000 ? at + 1000L * pauseS : at, event.message(), null));
      } else if (event.at() >= back) {
        later.add(event);
      }
    }
    later.sort(Comparator.comparingLong(Event::at));
    List<String> lines = new ArrayList<>();
    try (TraceJobs.Job jobs = TraceJobs.BY_FOLDER.get(job).make(Trace.windowEntries(trace))) {
      for (Event event : live) {
        jobs.happen(event, lines);
      }
      jobs.load(jobs.save(lines), back, 1);
      for (Event event : later) {
        jobs.happen(event, lines);
      }
      jobs.barrier(lines);
      lines.addAll(jobs.rows);
    }
    return lines;
  }

  @Test
  void aPauseOfTwentySecondsInACatchUpCostsNoWindow() throws Exception {
    Map<String, String> rows = mixes(catchUp("mixes", 20));
    for (int minute = 0; minute < 60; minute++) {
      String ts = String.format(Locale.ROOT, "00:%02d:00Z", minute);
      assertEquals("24000 4/4", rows.get(ts + " all"), ts);
    }
  }

  @Test
  void aPauseOfTwentySecondsInACatchUpCostsNoHourOfCounters() throws Exception {
    String last = "";
    for (String line : catchUp("filters", 20)) {
      Map<String, String> row = fields(line);
      if (line.startsWith("means ts=00:00:00Z window_s=3600 scope=2")) {
        last =
            row.get("octets") + " " + row.get("probes_reported") + "/" + row.get("probes_expected");
      }
    }
    assertEquals("1440000 4/4", last);
  }

  /** A minute of which half came in time, and half two hours later. */
  @Test
  void theMinuteInWhichAnOutageBeganKeepsWhatItHeld() throws Exception {
    enrol("p1", "p2");
    for (int s = 0; s < 9000; s += 10) {
      interval("p2/0", s, 1);
      if (s < 630) {
        interval("p1/0", s, 1000);
      }
    }
    at(8000, "to p1/0 630");
    for (int s = 630; s < 1500; s += 10) {
      at(8001, "batch p1/0 10.1.1.1:1024>192.0.2.1:80/6 1,1000,0,0");
      at(8001, "close p1/0");
    }
    at(9900, "now");
    Map<String, String> rows = mixes(run("mixes", events -> events));
    assertEquals("3000", rows.get("00:10:00Z p1").split(" ", 2)[0]);
    for (int minute = 11; minute < 25; minute++) {
      String ts = String.format(Locale.ROOT, "00:%02d:00Z p1", minute);
      assertEquals("6000 1/1", rows.get(ts), ts);
    }
  }

  /** The last message of a partition is no record: nothing waits for it. */
  @Test
  void windowsEndBehindAMessageThatIsSetAside() throws Exception {
    two(90, 1);
    at(91.5, "batch p1/0 10.1.0.1:1024>192.0.2.1:80/6 1,1000,0,0");
    at(130, "raw p1/0 malformed xyz");
    at(131, "repeat p2/0 0");
    at(160, "now");
    assertEquals("4003 0/2", mixes(run("mixes", events -> events)).get("00:01:00Z all"));
  }

  /** Kafka was away for four hours; both probes send their spools, a minute apart. */
  @Test
  void nationalMeansHoldWhatTwoSpoolsBring() throws Exception {
    at(0, "probe p1");
    at(0, "probe p2");
    for (int p = 1; p <= 2; p++) {
      double at = 14_410 + (p - 1) * 60;
      at(at, "to p" + p + "/0 0");
      for (int s = 0; s < 14_400; s += 10) {
        at += 0.01;
        at(at, "counters p" + p + "/0 web/in=1," + (p == 1 ? 1000 : 1));
        at(at, "close p" + p + "/0");
      }
    }
    at(17_400, "now");
    Map<String, Integer> versions = new TreeMap<>();
    Map<String, Long> octets = new TreeMap<>();
    for (String line : run("filters", events -> events)) {
      Map<String, String> row = fields(line);
      if (line.startsWith("means ")
          && "30".equals(row.get("window_s"))
          && !row.containsKey("probe")) {
        if (Integer.parseInt(row.get("version")) >= versions.getOrDefault(row.get("ts"), 0)) {
          versions.put(row.get("ts"), Integer.parseInt(row.get("version")));
          octets.put(row.get("ts"), Long.parseLong(row.get("octets")));
        }
      }
    }
    assertEquals(480 * 3003L, octets.values().stream().mapToLong(Long::longValue).sum());
  }
}
