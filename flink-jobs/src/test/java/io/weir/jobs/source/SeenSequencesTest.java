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
    one.entries(30).forEach(entries::add);
    two.entries(30).forEach(entries::add);
    FieldSerializer<Entry> serializer = new FieldSerializer<>(Entry.class);
    SeenSequences merged = new SeenSequences();
    for (Entry entry : entries) {
      DataOutputSerializer out = new DataOutputSerializer(64);
      serializer.write(entry, out);
      merged.restore(serializer.read(new DataInputDeserializer(out.getCopyOfBuffer())));
    }
    for (long n = 0; n < 10; n++) {
      assertFalse(merged.add(A, 7, n, 30));
    }
    assertTrue(merged.add(A, 7, 10, 30));
  }

  @Test
  void theRunNotTouchedForLongestIsForgotten() {
    SeenSequences seen = new SeenSequences();
    for (long epoch = 0; epoch < SeenSequences.MAX_EPOCHS; epoch++) {
      seen.add(A, epoch, 0, epoch);
    }
    seen.add(A, 0, 1, 1_000_000); // touches the first
    seen.add(A, 1_000, 0, 1_000_001);
    List<Entry> entries = new ArrayList<>();
    seen.entries(1_000_002).forEach(entries::add);
    assertEquals(SeenSequences.MAX_EPOCHS, entries.size());
    assertTrue(entries.stream().anyMatch(entry -> entry.epoch() == 0));
    assertTrue(entries.stream().noneMatch(entry -> entry.epoch() == 1));
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
    List<Entry> entries = new ArrayList<>();
    seen.entries(now).forEach(entries::add);
    return entries.size();
  }
}
