package io.weir.jobs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.Trace.Event;
import io.weir.jobs.TraceJobs.Job;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** State is released when nothing needs it any more, and no earlier. */
class ReleasedTest {
  private static final long DAY_MS = 86_400_000;

  /** Place of the operator that keeps windows among those of a job. */
  private static final int WINDOWS = 4;

  private final List<String> lines = new ArrayList<>();

  private static List<String> probe(String name, int network) {
    List<String> trace = new ArrayList<>(List.of("0 probe " + name));
    for (int start = 0; start < 60; start += 10) {
      String to = "198.51.100.%d:53/17".formatted(network);
      trace.add(
          start + 1 + " batch %s/0 10.0.%d.7:5000>%s 3,300,2,200".formatted(name, network, to));
      trace.add(start + 10 + " close " + name + "/0");
      trace.add(start + 10 + " counters " + name + "/0 web/in=5,500");
    }
    return trace;
  }

  private void happen(Job job, List<String> trace) throws Exception {
    trace.sort((a, b) -> Double.compare(second(a), second(b)));
    for (Event event : Trace.read("trace", trace)) {
      job.happen(event, lines);
    }
  }

  private static double second(String line) {
    return Double.parseDouble(line.substring(0, line.indexOf(' ')));
  }

  /** A job after a window of 30 s (mixes: of 60 s) and this time, s. */
  private int kept(String job, int seconds) throws Exception {
    List<String> trace = probe("alpha", 1);
    trace.removeIf(line -> second(line) > 30);
    trace.add(seconds + " now");
    try (Job running = TraceJobs.BY_FOLDER.get(job).make(1_000_000)) {
      happen(running, trace);
      return running.kept();
    }
  }

  /**
   * A window takes late data for 330 s after its end; until then buckets keep its flows, and the
   * merge keeps their digests, or sums for as many minutes.
   */
  @ParameterizedTest
  @CsvSource({"topn,355,365", "indicators,355,365", "mixes,360,900"})
  void aWindowTakesLateDataForSomeTimeAndThenNoMemory(String job, int before, int after)
      throws Exception {
    assertTrue(kept(job, before) > 0, "digests and flows are kept");
    assertEquals(0, kept(job, after));
  }

  /** Octets of a job's windows at this second: the first has this many flows, the next has one. */
  private long octetsOfWindows(String job, int flows, int second) throws Exception {
    List<String> trace = new ArrayList<>(List.of("0 probe alpha"));
    for (int flow = 0; flow < flows; flow++) {
      trace.add(
          "1 batch alpha/0 10.%d.%d.7:5000>198.51.100.1:53/17 3,300,2,200;app=%d"
              .formatted(flow / 200, flow % 200, 1 + flow));
    }
    trace.add("31 batch alpha/0 10.0.1.7:5001>198.51.100.1:53/17 3,300,2,200;app=1");
    for (int start = 0; start < 120; start += 10) {
      trace.add(start + 10 + " close alpha/0");
    }
    trace.add(second + " now");
    return octets(job, trace).get(WINDOWS);
  }

  /**
   * A window that is over stays until the next one is, since its last flows may be answered there:
   * without its flows, and without the sums that late flows would correct.
   */
  @ParameterizedTest
  @ValueSource(strings = {"topn", "indicators", "mixes"})
  void aWindowThatIsOverKeepsNoFlows(String job) throws Exception {
    long one = octetsOfWindows(job, 1, 340);
    long many = octetsOfWindows(job, 400, 340);
    assertTrue(many > one + 400 * 8, many + " octets, and " + one + " of one flow");
    assertEquals(octetsOfWindows(job, 1, 365), octetsOfWindows(job, 400, 365));
  }

  /** Lets the operators' timers fire at these times, ms after the trace. */
  private static void pass(Job job, long... times) throws Exception {
    for (long at : times) {
      for (Stage<?, ?> stage : job.stages()) {
        stage.time(Trace.BASE_MS + 4_500_000 + at);
      }
    }
  }

  /** Octets of the state of each of a job's operators, without the one that reads messages. */
  private Map<Integer, Long> octets(String job, List<String> trace, long... later)
      throws Exception {
    try (Job running = TraceJobs.BY_FOLDER.get(job).make(1_000_000)) {
      happen(running, trace);
      pass(running, later);
      Map<Integer, Long> octets = new TreeMap<>();
      List<Stage.Saved> saved = running.save(lines);
      for (int number = 1; number < saved.size(); number++) {
        octets.put(number, saved.get(number).octets());
      }
      return octets;
    }
  }

  private void removedProbeLeavesNothing(String job, long... later) throws Exception {
    List<String> beta = probe("beta", 2);
    beta.add("4400 batch beta/0 10.0.2.7:5000>198.51.100.2:53/17 3,300,2,200");
    beta.add("4401 close beta/0");
    beta.add("4500 now");
    List<String> both = new ArrayList<>(probe("alpha", 1));
    both.addAll(beta);
    both.add("71 retire alpha");
    assertEquals(octets(job, beta, later), octets(job, both, later));
  }

  @Test
  void theHealthOfAProbeThatWasRemovedLeavesNothing() throws Exception {
    removedProbeLeavesNothing("health", 600_000);
  }

  /** What a probe's late counters must not count twice, and its ledger's rows, are known longer. */
  @ParameterizedTest
  @ValueSource(strings = {"ingest", "filters"})
  void aProbeThatWasRemovedLeavesNothingAfterAMonth(String job) throws Exception {
    // After a day the widest window ends; the time that windows follow goes on two minutes later.
    LongStream day = LongStream.range(0, 60).map(step -> DAY_MS + step * 5_000);
    removedProbeLeavesNothing(job, LongStream.concat(day, LongStream.of(32 * DAY_MS)).toArray());
  }

  @Test
  void aProbeThatIsEnrolledLeavesSomething() throws Exception {
    List<String> both = new ArrayList<>(probe("alpha", 1));
    both.addAll(probe("beta", 2));
    both.add("4500 now");
    List<String> beta = probe("beta", 2);
    beta.add("4500 now");
    Map<Integer, Long> one = octets("topn", beta, 600_000);
    Map<Integer, Long> two = octets("topn", both, 600_000);
    assertTrue(one.values().stream().anyMatch(octets -> octets > 0));
    assertTrue(sum(two) > sum(one));
  }

  private static long sum(Map<Integer, Long> octets) {
    return octets.values().stream().mapToLong(Long::longValue).sum();
  }
}
