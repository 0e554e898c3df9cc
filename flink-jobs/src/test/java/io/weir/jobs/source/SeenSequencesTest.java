package io.weir.jobs.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.message.Retired;
import io.weir.jobs.serde.FieldSerializer;
import io.weir.jobs.source.SeenSequences.Entry;
import io.weir.jobs.source.SeenSequences.Worker;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.junit.jupiter.api.Test;

class SeenSequencesTest {
  private static final Worker A = new Worker(TopicKind.FLOWS, "alpha", 0);

  @Test
  void epochsWorkersAndTopicsAreToldApart() {
    SeenSequences seen = new SeenSequences();
    assertTrue(seen.add(A, 1, 0, 0));
    assertFalse(seen.add(A, 1, 0, 0));
    assertTrue(seen.add(A, 2, 0, 0));
    assertTrue(seen.add(new Worker(TopicKind.FLOWS, "alpha", 1), 1, 0, 0));
    assertTrue(seen.add(new Worker(TopicKind.COUNTERS, "alpha", 0), 1, 0, 0));
  }

  @Test
  void statesOfSeveralSubtasksAreMerged() throws IOException {
    SeenSequences one = new SeenSequences();
    SeenSequences two = new SeenSequences();
    for (long n = 0; n < 10; n++) {
      (n < 6 ? one : two).add(A, 7, n, n);
    }
    one.add(A, 7, 8, 20);
    List<Entry> entries = new ArrayList<>();
    one.entries(30, true).forEach(entries::add);
    two.entries(30, true).forEach(entries::add);
    FieldSerializer<Entry> serializer = new FieldSerializer<>(Entry.class);
    List<Entry> read = new ArrayList<>();
    for (Entry entry : entries) {
      DataOutputSerializer out = new DataOutputSerializer(64);
      serializer.write(entry, out);
      read.add(serializer.read(new DataInputDeserializer(out.getCopyOfBuffer())));
    }
    SeenSequences merged = new SeenSequences();
    merged.restore(read);
    for (long n = 0; n < 10; n++) {
      assertFalse(merged.add(A, 7, n, 30));
    }
    assertTrue(merged.add(A, 7, 10, 30));
  }

  @Test
  void theRunNotTouchedForLongestIsForgotten() {
    SeenSequences seen = new SeenSequences();
    for (long epoch = 0; epoch < SeenSequences.MAX_RANGES; epoch++) {
      seen.add(A, epoch, 0, epoch);
    }
    seen.add(A, 0, 1, 1_000_000); // touches the first
    assertEquals(0, seen.forgotten());
    seen = restored(seen); // which keeps their order
    seen.add(A, 100_000, 0, 1_000_001);
    assertEquals(1, seen.forgotten());
    List<Entry> entries = entries(seen, 1_000_002);
    assertEquals(SeenSequences.MAX_RANGES, entries.size());
    assertTrue(entries.stream().anyMatch(entry -> entry.epoch() == 0));
    assertTrue(entries.stream().noneMatch(entry -> entry.epoch() == 1));
  }

  /** Over all workers and runs; beyond the bound, an old gap is lost, and nothing counts twice. */
  @Test
  void gapsOfOneProbeAreBounded() {
    SeenSequences seen = new SeenSequences();
    Worker beside = new Worker(TopicKind.FLOWS, "beta", 0);
    seen.add(beside, 1, 5, 0);
    for (int worker = 0; worker < 4; worker++) {
      for (long n = 0; n < SeenSequences.MAX_RANGES; n++) {
        assertTrue(seen.add(new Worker(TopicKind.FLOWS, "alpha", worker), 1, 2 * n, 0));
      }
    }
    assertEquals(3L * SeenSequences.MAX_RANGES, seen.forgotten());
    assertEquals(SeenSequences.MAX_RANGES + 1, ranges(seen));
    for (int worker = 0; worker < 4; worker++) {
      for (long n = 0; n < SeenSequences.MAX_RANGES; n++) {
        assertFalse(seen.add(new Worker(TopicKind.FLOWS, "alpha", worker), 1, 2 * n, 0));
      }
    }
    assertFalse(seen.add(new Worker(TopicKind.FLOWS, "alpha", 3), 1, 1, 0)); // a gap forgotten
    assertTrue(seen.add(beside, 1, 3, 0));
  }

  @Test
  void theStateOfAnEarlierVersionIsCutToTheBound() {
    long[] ranges = new long[4 * SeenSequences.MAX_RANGES];
    for (int i = 0; i < ranges.length; i++) {
      ranges[i] = 2L * (i / 2);
    }
    SeenSequences seen = new SeenSequences();
    seen.restore(List.of(new Entry(A, 1, 0, ranges), new Entry(A, 2, 1, ranges)));
    assertTrue(ranges(seen) <= SeenSequences.MAX_RANGES);
    assertFalse(seen.add(A, 2, 0, 2));
    assertFalse(seen.add(A, 2, ranges[ranges.length - 1], 2));
    assertTrue(seen.add(A, 2, ranges[ranges.length - 1] + 1, 2));
  }

  /** So the state does not grow with the subtasks, which restore all of it. */
  @Test
  void whatASubtaskOnlyRestoredIsSavedOnce() {
    SeenSequences before = new SeenSequences();
    before.add(A, 1, 0, 0);
    before.add(A, 2, 0, 0);
    SeenSequences second = restored(before);
    second.add(A, 2, 1, 1);
    List<Entry> saved = new ArrayList<>();
    second.entries(1, false).forEach(saved::add);
    assertEquals(List.of(2L), saved.stream().map(Entry::epoch).toList());
    restored(before).entries(1, true).forEach(saved::add);
    SeenSequences after = new SeenSequences();
    after.restore(saved);
    assertFalse(after.add(A, 1, 0, 2));
    assertFalse(after.add(A, 2, 1, 2));
  }

  /** A probe that has been removed uses none. */
  @Test
  void aRunNotUsedForAMonthIsForgotten() {
    SeenSequences seen = new SeenSequences();
    long month = Retired.LATE_MS;
    seen.add(A, 1, 0, 10);
    seen.add(new Worker(TopicKind.FLOWS, "beta", 0), 1, 0, 20);
    assertEquals(2, count(seen, month + 9));
    assertEquals(1, count(seen, month + 10));
    assertTrue(seen.add(A, 1, 0, month + 10));
    assertEquals(1, count(seen, month + 20));
    assertEquals(0, count(seen, 2 * month + 10));
  }

  private static int count(SeenSequences seen, long now) {
    return entries(seen, now).size();
  }

  private static int ranges(SeenSequences seen) {
    return entries(seen, 0).stream().mapToInt(entry -> entry.ranges().length / 2).sum();
  }

  private static SeenSequences restored(SeenSequences seen) {
    SeenSequences again = new SeenSequences();
    again.restore(entries(seen, 0));
    return again;
  }

  private static List<Entry> entries(SeenSequences seen, long now) {
    List<Entry> entries = new ArrayList<>();
    seen.entries(now, true).forEach(entries::add);
    return entries;
  }
}
