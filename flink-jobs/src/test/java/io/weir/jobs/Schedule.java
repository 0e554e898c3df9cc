package io.weir.jobs;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.TreeMap;

/**
 * Random events over some minutes, chosen by a seed and written as a {@link Trace}, of several
 * agents, Kafka, and a person who stops and starts the jobs: probes of one or two workers, one flow
 * seen by several of them, batches and closing records that are lost, late or repeated, workers
 * whose messages are delayed for minutes and then arrive all at once, agents restarted or stopped,
 * clocks that step, floods beyond an agent's bounds, malformed messages, and jobs stopped and
 * started from their state at any time. After it come {@link #QUIET_S} seconds without messages.
 */
final class Schedule {
  /** Length of the silence at the end: longer than any wait. */
  static final int QUIET_S = 900;

  /** How long the jobs remember a probe that is no longer listed. */
  private static final int FORGET_S = 3_600;

  private static final int INTERVAL_S = 10;

  /** A line of the trace. {@code order} keeps one worker's messages in their order. */
  private record Line(double at, long order, String text) {
    @Override
    public String toString() {
      return String.format(Locale.ROOT, "%.3f %s", at, text);
    }
  }

  private final Random random;

  /** Chooses how the jobs restart, independently of everything else. */
  private final Random restarts;

  private final List<Line> lines = new ArrayList<>();
  private final List<String> flows = new ArrayList<>();
  private long order;

  /** The first interval in which no wire has packets, and the length of that silence in seconds. */
  private int silentFrom;

  private int silentS;

  /** Messages lost so far, by partition: {@code late} names them by number. */
  private final TreeMap<String, Integer> lost = new TreeMap<>();

  private final TreeMap<String, Integer> sent = new TreeMap<>();

  private Schedule(long seed) {
    random = new Random(seed * 0x9E3779B97F4A7C15L);
    restarts = new Random(seed * 0x9E3779B97F4A7C15L + 1);
  }

  /** The trace of a seed. */
  static List<String> of(long seed) {
    Schedule schedule = new Schedule(seed);
    schedule.draw();
    return schedule.text();
  }

  private List<String> text() {
    lines.sort(Comparator.comparingDouble(Line::at).thenComparingLong(Line::order));
    List<String> text = new ArrayList<>();
    lines.forEach(line -> text.add(line.toString()));
    return text;
  }

  private boolean chance(double probability) {
    return random.nextDouble() < probability;
  }

  private void add(double at, String text) {
    lines.add(new Line(at, order++, text));
  }

  private void draw() {
    if (chance(0.25)) {
      add(0, "window-entries " + 64 * (16 + random.nextInt(100)));
    }
    if (chance(0.5)) {
      add(0, "seldom-barriers");
    }
    int probes = 1 + random.nextInt(3);
    int intervals = 6 + random.nextInt(18);
    if (chance(0.15)) {
      silentFrom = 1 + random.nextInt(intervals);
      silentS = INTERVAL_S * (3 + random.nextInt(100));
    }
    for (int i = 0; i < 3 + random.nextInt(10); i++) {
      flows.add(flow());
    }
    for (int probe = 1; probe <= probes; probe++) {
      add(
          0,
          "prefix 10.%d.0.0/16 id=%d customer=%d site=s%d national"
              .formatted(probe, probe, probe, probe));
    }
    for (int probe = 1; probe <= probes; probe++) {
      String name = "p" + probe;
      int workers = 1 + random.nextInt(2);
      add(0, "declare %s site=s%d rank=%d".formatted(name, probe, 100 - random.nextInt(2)));
      add(0, "probe %s workers=%d partitions=%d".formatted(name, workers, workers));
      int rate = chance(0.2) ? 10 : 1;
      for (int worker = 0; worker < workers; worker++) {
        worker(name + "/" + worker, rate, intervals);
      }
    }
    int end = intervals * INTERVAL_S + silentS;
    int quiet = QUIET_S;
    if (probes > 1 && chance(0.05)) {
      String retired = "p" + (1 + random.nextInt(probes));
      double heard =
          lines.stream()
              .filter(line -> line.text().contains(" " + retired + "/"))
              .mapToDouble(Line::at)
              .max()
              .orElse(end);
      add(heard + 1 + random.nextInt(600), "retire " + retired);
      quiet = QUIET_S + FORGET_S;
    }
    int down = 0;
    if (chance(0.4)) {
      double crash = random.nextDouble() * end;
      down = random.nextInt(chance(0.3) ? 1200 : 60);
      add(Math.max(0, crash - random.nextInt(30)), "checkpoint");
      add(crash, "crash " + down + parallelism());
    } else {
      for (int i = random.nextInt(6); i > 0; i--) {
        add(random.nextDouble() * (end + QUIET_S), "stop-jobs" + parallelism());
      }
    }
    double last = lines.stream().mapToDouble(Line::at).max().orElse(0);
    add(Math.max(last, end + down) + quiet, "now");
  }

  /** The number of subtasks with which the jobs restart, often one. */
  private String parallelism() {
    return restarts.nextInt(3) == 0 ? " " + (2 + restarts.nextInt(3)) : "";
  }

  /** One of the flows that probes see: between few hosts, so that they meet in lists. */
  private String flow() {
    int protocol = new int[] {6, 6, 6, 17, 17, 1}[random.nextInt(6)];
    String from = address();
    String to = address();
    int port = protocol == 1 ? 0 : 1024 + random.nextInt(4);
    int service = protocol == 1 ? 0 : new int[] {53, 80, 443}[random.nextInt(3)];
    return "%s:%d>%s:%d/%d".formatted(from, port, to, service, protocol);
  }

  private String address() {
    return chance(0.6)
        ? "10.%d.0.%d".formatted(1 + random.nextInt(3), 1 + random.nextInt(3))
        : "192.0.2." + (1 + random.nextInt(4));
  }

  /** The messages of one worker, by the agent's clock; delayed messages arrive later. */
  private void worker(String name, int rate, int intervals) {
    double held = 0; // until then, nothing of this worker comes
    boolean calm = chance(0.3);
    double loss = calm ? 0 : 0.08;
    int begin = chance(0.2) ? random.nextInt(4) : 0;
    int end = chance(0.2) ? intervals - random.nextInt(4) : intervals;
    int start = begin * INTERVAL_S;
    // A clock that is wrong, seldom by much.
    int offset = chance(0.1) ? INTERVAL_S * (random.nextInt(13) - 6) : 0;
    boolean opened = false;
    boolean atEnd = chance(0.5);
    for (int interval = begin; interval < end; interval++, start += INTERVAL_S) {
      int silence = interval == silentFrom ? silentS : 0;
      if (!calm && chance(0.01)) {
        silence = Math.max(silence, INTERVAL_S * random.nextInt(60));
      }
      if (silence > 0) {
        start += silence;
        opened = false;
      }
      if (!calm && chance(0.03)) {
        held = Math.max(held, start + random.nextInt(chance(0.3) ? 400 : 60));
      }
      int batches = random.nextInt(4);
      double at = start;
      for (int batch = 0; batch < batches; batch++) {
        // Agents publish in the course of an interval, or all at its end.
        double after = atEnd ? INTERVAL_S + batch * 0.1 : (batch + 1) * 2.0 + random.nextDouble();
        at = Math.max(held, start + after);
        if (!opened) {
          add(at, "to %s %d".formatted(name, start + offset));
          opened = true;
        }
        send(at, name, "batch", records(rate), loss);
      }
      if (!calm && chance(0.05)) {
        at = Math.max(Math.max(held, at), start + 9);
        if (!opened) {
          add(at, "to %s %d".formatted(name, start + offset));
          opened = true;
        }
        send(at, name, "overflow", " %d,%d".formatted(1 + random.nextInt(50), 2000), loss);
      }
      at = Math.max(held, start + INTERVAL_S + 0.5 + random.nextDouble() * 1.5);
      if (!opened) {
        add(at, "to %s %d".formatted(name, start + offset));
        opened = true;
      }
      if (chance(calm ? 1 : 0.9)) {
        add(at, "counters " + name + counters());
      }
      if (!calm && interval < end - 1 && chance(0.02)) {
        // Killed: the interval gets no closing record, and the next run begins with the next one.
        held = Math.max(held, at + 0.002); // an epoch is a time
        at = held;
        add(at, "restart " + name);
        add(at, "to %s %d".formatted(name, start + offset + INTERVAL_S));
        continue;
      }
      boolean last = interval == end - 1 && chance(0.5);
      send(at, name, "close", (last ? " last" : "") + sums(calm), loss);
      if (!calm && chance(0.03) && sent.getOrDefault(name, 0) > 0) {
        add(
            at + random.nextInt(60),
            "repeat %s %d".formatted(name, random.nextInt(sent.get(name))));
      }
      if (!calm && chance(0.02)) {
        add(at, "raw %s %s".formatted(name, chance(0.5) ? "rubbish" : "major"));
      }
    }
  }

  /** A closing record's counts of packets that are in no record; rarely, these do not add up. */
  private String sums(boolean calm) {
    StringBuilder sums = new StringBuilder();
    for (String name : List.of("carried", "ring", "not-metered")) {
      sums.append(chance(0.2) ? " " + name + "=" + (1 + random.nextInt(20)) : "");
    }
    if (!calm && chance(0.01)) {
      sums.append(chance(0.5) ? " unbalanced=" : " unbalanced-octets=");
      sums.append(5_000 + random.nextInt(100));
    }
    if (!calm && chance(0.02)) {
      sums.append(" dropped=").append(1 + random.nextInt(50));
    }
    return sums.toString();
  }

  /** A message, which may be lost; a lost one may come late. */
  private void send(double at, String name, String action, String rest, double loss) {
    if (!chance(loss)) {
      add(at, "%s %s%s".formatted(action, name, rest));
      sent.merge(name, 1, Integer::sum);
      return;
    }
    add(at, "lost-%s %s%s".formatted(action, name, rest));
    int number = lost.merge(name, 1, Integer::sum) - 1;
    if (chance(0.7)) {
      double later = at + 1 + random.nextInt(chance(0.2) ? 420 : 90);
      add(later, "late %s %d".formatted(name, number));
    }
  }

  private String records(int rate) {
    StringBuilder records = new StringBuilder();
    for (int i = 1 + random.nextInt(4); i > 0; i--) {
      String flow = flows.get(random.nextInt(flows.size()));
      int forward = 1 + random.nextInt(20);
      int reverse = chance(0.6) ? random.nextInt(20) : 0;
      records.append(
          " %s %d,%d,%d,%d%s%s%s"
              .formatted(
                  flow,
                  forward,
                  forward * (40 + random.nextInt(1000)),
                  reverse,
                  reverse * (40 + random.nextInt(1000)),
                  chance(0.5) ? ";new" : "",
                  rate == 1 ? "" : ";sampled=" + rate,
                  flow.endsWith("/6") ? tcp() : ""));
    }
    return records.toString();
  }

  /** The additional fields of a TCP record. */
  private String tcp() {
    StringBuilder more = new StringBuilder();
    more.append(chance(0.3) ? ";syn=" + random.nextInt(4) + ",0" : "");
    more.append(chance(0.4) ? ";synack=0,1" : "");
    more.append(chance(0.2) ? ";fin=1,1" : "");
    more.append(chance(0.1) ? ";rst=0,1" : "");
    more.append(chance(0.05) ? ";guess" : "");
    more.append(chance(0.3) ? ";at=" + random.nextInt(10_000) : "");
    return more.toString();
  }

  /** Counters of an interval, without labels that counted nothing. */
  private String counters() {
    StringBuilder counters = new StringBuilder();
    for (String label : List.of("web/in", "web/out", "mail/in", "size/64")) {
      if (label.equals("web/in") || chance(0.6)) {
        int packets = 1 + random.nextInt(100);
        counters.append(" %s=%d,%d".formatted(label, packets, packets * 100));
      }
    }
    return counters.toString();
  }
}
