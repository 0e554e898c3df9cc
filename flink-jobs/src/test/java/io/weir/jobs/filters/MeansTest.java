package io.weir.jobs.filters;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.Stage;
import io.weir.jobs.filters.MeansMessage.Counted;
import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.RawMessage;
import io.weir.jobs.table.TableRow;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
import org.junit.jupiter.api.Test;

class MeansTest {
  private static final long BASE = 1_767_225_600_000L;
  private static final long DELAY = 15_000;

  private final Map<String, Integer> dropped = new TreeMap<>();
  private final List<TableRow> rows = new ArrayList<>();

  private static MeansMessage message(
      String scope, String probe, long start, int length, long appended, List<Counted> counters) {
    return new MeansMessage(
        scope, -1, probe, 0, 1, start, length, 0, appended, counters, new long[0]);
  }

  private void accept(Means means, long start, int length, List<Counted> counters, long now) {
    add(means, start, length, counters, now);
    means.tick("alpha", now, DELAY, rows::add);
  }

  private void add(Means means, long start, int length, List<Counted> counters, long now) {
    MeansMessage message = message("alpha", "alpha", start, length, RawMessage.NO_TIME, counters);
    means.accept(message, now, (cause, count) -> dropped.merge(cause, count, Integer::sum));
  }

  private void addAndTick(Means means, long start, int length, List<Counted> counters, long now) {
    add(means, start, length, counters, now);
    if (means.isTickDue(now)) {
      means.tick("alpha", now, DELAY, rows::add);
    }
  }

  private static List<Counted> labels(int count) {
    List<Counted> counters = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      counters.add(new Counted(new Label("set", "label-" + i), 1, 100));
    }
    return counters;
  }

  @Test
  void aDayOfCountersAddsUpInEveryWindow() {
    Means means = new Means();
    Random random = new Random(7);
    Map<Long, Long> expected = new TreeMap<>();
    for (long start = BASE; start < BASE + 86_400_000; start += 10_000) {
      long packets = random.nextInt(1000);
      expected.merge(0L, packets, Long::sum);
      List<Counted> counters = List.of(new Counted(new Label("a", "b"), packets, 10 * packets));
      accept(means, start, 10_000, counters, start + 10_100);
    }
    means.tick("alpha", BASE + 86_400_000 + 10_000, DELAY, rows::add);
    for (Span span : Span.values()) {
      Map<Long, TableRow> newest = new TreeMap<>();
      for (TableRow row : rows) {
        if (((Number) row.get("window_s")).intValue() == span.seconds) {
          newest.put(row.ts(), row);
        }
      }
      assertEquals(86_400 / span.seconds, newest.size());
      long sum = 0;
      for (TableRow row : newest.values()) {
        long packets = ((Number) row.get("packets")).longValue();
        assertEquals((double) packets / span.seconds, (Double) row.get("packets_per_second"));
        assertEquals(span.seconds / 10L, row.get("intervals_seen"));
        assertEquals(span.seconds / 10L, row.get("intervals_expected"));
        assertTrue(
            (Double) row.get("peak_packets_per_second") >= (Double) row.get("packets_per_second"));
        sum += packets;
      }
      assertEquals(expected.get(0L), sum);
    }
    assertEquals(Map.of(), dropped);
  }

  @Test
  void labelsAreBounded() {
    Means means = new Means();
    accept(means, BASE, 10_000, labels(MeansWindow.MAX_LABELS + 5), BASE + 10_000);
    assertEquals(Map.of("too_many_labels", 5 * Span.values().length), dropped);
  }

  @Test
  void windowsOfABacklogAreBoundedAndNoneIsLost() {
    Means means = new Means();
    int count = 3 * Means.MAX_WINDOWS;
    for (int i = 0; i < count; i++) {
      addAndTick(means, BASE + i * 30_000L, 30_000, labels(2), BASE + 100_000_000 + i);
    }
    means.tick("alpha", BASE + 100_000_000 + count, DELAY, rows::add);
    long halfMinutes =
        rows.stream().filter(row -> ((Number) row.get("window_s")).intValue() == 30).count();
    assertEquals(2L * count, halfMinutes);
    accept(means, BASE, 30_000, labels(2), BASE + 100_000_000 + count);
    assertTrue(dropped.get("too_late") > 0);
  }

  @Test
  void windowsOfAClockThatJumpsAreBoundedAndSaid() {
    Means means = new Means();
    Random random = new Random(3);
    Set<Long> starts = new HashSet<>();
    for (int i = 0; i < 3 * Means.MAX_WINDOWS; i++) {
      long start = BASE + random.nextInt(1_000_000) * 30_000L;
      starts.add(start);
      addAndTick(means, start, 10_000, labels(1), BASE + i);
    }
    Set<Long> written = new HashSet<>();
    rows.forEach(row -> written.add(1000 * row.ts()));
    starts.removeAll(written);
    assertTrue(starts.size() <= Means.MAX_WINDOWS, starts.size() + " are not written yet");
    assertFalse(means.isTickDue(means.tickedAt()), "at most twice as many are kept");
  }

  @Test
  void sumsAreBounded() {
    Means means = new Means();
    for (int i = 0; i < 12; i++) {
      accept(means, BASE + i * 30_000L, 30_000, labels(50_000), BASE + (i + 1) * 30_000L);
    }
    Means.Serializer serializer = new Means.Serializer();
    assertTrue(serializer.copy(means).size() <= Means.MAX_CELLS);
    assertEquals(Map.of(), dropped);
  }

  @Test
  void anIntervalThatCrossesAWindowsEndIsLeftOutOfIt() {
    Means means = new Means();
    accept(means, BASE + 10_000, 60_000, labels(1), BASE + 70_000);
    assertEquals(Map.of("interval_too_long", 1), dropped); // five minutes and more take it
  }

  /** The state of the scope over all probes, in octets, after counters of these probes. */
  private static int octets(List<String> probes, List<String> removed) throws Exception {
    Means means = new Means();
    for (String probe : probes) {
      MeansMessage message = message("/0", probe, BASE, 10_000, RawMessage.NO_TIME, labels(0));
      means.accept(message, BASE + 10_000, (cause, count) -> {});
    }
    means.forget(removed); // its windows still need it
    for (long second = 0; second < 2 * 86_400; second += 10) {
      means.tick("/0", BASE + second * 1_000, DELAY, row -> {});
    }
    assertTrue(means.isEmpty());
    means.forget(removed);
    DataOutputSerializer out = new DataOutputSerializer(1_000);
    new Means.Serializer().write(means, out);
    return out.length();
  }

  @Test
  void aProbeThatHasBeenRemovedLeavesNothing() throws Exception {
    int one = octets(List.of("alpha"), List.of());
    assertTrue(octets(List.of("alpha", "beta"), List.of()) > one);
    assertEquals(one, octets(List.of("alpha", "beta"), List.of("beta")));
  }

  private static Stage<MeansMessage, TableRow> stage() throws Exception {
    return Stage.keyed(
        () -> new KeyedProcessOperator<>(new CounterMeans(Duration.ofMillis(DELAY))),
        MeansMessage::scope,
        Types.STRING,
        TableRow.TYPE);
  }

  /** Octets of the scope over all probes after two days, in which Kafka lists alpha alone. */
  private static long octetsAfterDays(String... began) throws Exception {
    Enrolment.Probe alpha = new Enrolment.Probe("alpha", new long[] {0}, new long[] {1});
    try (Stage<MeansMessage, TableRow> means = stage()) {
      for (long start = BASE; start < BASE + 2 * 86_400_000; start += 600_000) {
        means.time(start + 10_000);
        for (String probe : start == BASE ? began : new String[] {"alpha"}) {
          means.give(message("/0", probe, start, 10_000, start + 10_000, labels(1)));
        }
        means.give(MeansMessage.enrolled("/0", new Enrolment(start, List.of(alpha))));
        for (long second = 20; second < 600; second += 20) {
          means.time(start + second * 1_000);
        }
      }
      return means.save().octets();
    }
  }

  @Test
  void aProbeThatKafkaNoLongerListsLeavesNothing() throws Exception {
    assertEquals(octetsAfterDays("alpha"), octetsAfterDays("alpha", "beta"));
  }

  /** A scope that waits to be forgotten still writes what comes then. */
  @Test
  void countersAfterALongSilenceAreWritten() throws Exception {
    try (Stage<MeansMessage, TableRow> means = stage()) {
      for (long day : new long[] {0, 3, 29, 65}) {
        long start = BASE + day * 86_400_000;
        means.time(start + 10_000);
        means.give(message("alpha", "alpha", start, 10_000, start + 10_000, labels(1)));
        Set<Object> spans = new HashSet<>();
        for (long second = 10; second < 60; second++) {
          means.time(start + second * 1_000).forEach(row -> spans.add(row.get("window_s")));
        }
        assertEquals(Set.of(30), spans, "day " + day);
        for (long second = 86_400; second < 87_400; second += 10) {
          means.time(start + second * 1_000).forEach(row -> spans.add(row.get("window_s")));
        }
        assertEquals(Span.values().length, spans.size(), "day " + day);
      }
      assertTrue(means.stateEntries() > 0);
      means.time(BASE + 100L * 86_400_000);
      assertEquals(0, means.stateEntries());
    }
  }
}
