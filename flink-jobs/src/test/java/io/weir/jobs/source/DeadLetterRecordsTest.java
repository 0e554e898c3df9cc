package io.weir.jobs.source;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.weir.jobs.message.DeadLetter;
import io.weir.jobs.message.RawMessage;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.junit.jupiter.api.Test;

class DeadLetterRecordsTest {
  private static ProducerRecord<byte[], byte[]> record(int length) {
    RawMessage message =
        new RawMessage("weir.flows.alpha", 0, 7, RawMessage.NO_TIME, new byte[length]);
    return new DeadLetterRecords().serialize(new DeadLetter(message, "malformed: no"), null, null);
  }

  @Test
  void aMessageStaysAsItIs() {
    ProducerRecord<byte[], byte[]> record = record(DeadLetterRecords.MAX_VALUE);
    assertEquals(DeadLetterRecords.MAX_VALUE, record.value().length);
    assertNull(record.headers().lastHeader("weir-truncated"));
  }

  @Test
  void oneThatIsTooLargeIsCutAndSaysSo() {
    ProducerRecord<byte[], byte[]> record = record(9 << 20);
    assertEquals(DeadLetterRecords.MAX_VALUE, record.value().length);
    assertArrayEquals(
        Integer.toString(9 << 20).getBytes(StandardCharsets.UTF_8),
        record.headers().lastHeader("weir-truncated").value());
  }

  @Test
  void theBrokerRefusesNone() {
    ProducerRecord<byte[], byte[]> letter = record(DeadLetterRecords.MAX_VALUE);
    MemoryRecords written =
        MemoryRecords.withRecords(
            Compression.of(DeadLetterRecords.COMPRESSION).build(),
            new SimpleRecord(1, null, letter.value(), letter.headers().toArray()));
    Record read = written.records().iterator().next();
    assertEquals(DeadLetterRecords.MAX_VALUE, read.valueSize());
    assertEquals(4, read.headers().length);
  }
}
