package io.weir.jobs.source;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.weir.jobs.message.DeadLetter;
import io.weir.jobs.message.RawMessage;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.clients.producer.ProducerRecord;
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
}
