package io.weir.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.BufferSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class BoundedRecordsTest {
  private static final SimpleRecord RECORD =
      new SimpleRecord(5, null, "value".getBytes(StandardCharsets.UTF_8));

  @ParameterizedTest
  @EnumSource(
      value = CompressionType.class,
      names = {"NONE", "ZSTD"})
  void aBatchLosesItsProducerAndNothingElse(CompressionType type) {
    ByteBuffer octets = idempotent(type).buffer();
    BoundedRecords.forgetProducer(octets);
    MutableRecordBatch batch = only(octets);
    batch.ensureValid();
    assertFalse(batch.hasProducerId());
    assertEquals(RecordBatch.NO_PRODUCER_EPOCH, batch.producerEpoch());
    assertEquals(RecordBatch.NO_SEQUENCE, batch.baseSequence());
    assertEquals(RECORD.value(), batch.iterator().next().value());
  }

  @Test
  void whatIsDamagedOrOfATransactionStaysAsItIs() {
    ByteBuffer damaged = idempotent(CompressionType.NONE).buffer();
    damaged.put(damaged.limit() - 1, (byte) 1);
    ByteBuffer transactional =
        MemoryRecords.withTransactionalRecords(Compression.NONE, 7, (short) 1, 3, RECORD).buffer();
    for (ByteBuffer each : new ByteBuffer[] {damaged, transactional, ByteBuffer.allocate(30)}) {
      ByteBuffer before = ByteBuffer.allocate(each.limit()).put(0, each, 0, each.limit());
      BoundedRecords.forgetProducer(each);
      assertEquals(before, each);
    }
  }

  /** Kafka knows no answer to these, and writes each into its log. */
  @Test
  void offsetsThatDoNotAscendAndUnknownCodecsAreRefused() {
    ByteBuffer two = MemoryRecords.withRecords(Compression.NONE, RECORD, RECORD).buffer();
    int second = DefaultRecordBatch.RECORD_BATCH_OVERHEAD;
    second += 1 + two.get(second) / 2; // a size as a varint, of one octet
    two.put(second + 3, (byte) 0); // after size, attributes and time
    ByteBuffer unknown = idempotent(CompressionType.ZSTD).buffer();
    unknown.putShort(21, (short) 7);
    for (ByteBuffer each : new ByteBuffer[] {two, unknown}) {
      MutableRecordBatch batch = only(each);
      RefusedBatch refused =
          assertThrows(
              RefusedBatch.class, () -> batch.skipKeyValueIterator(BufferSupplier.create()));
      assertEquals(RefusedBatch.Cause.MALFORMED, refused.why());
    }
    assertThrows(RefusedBatch.class, only(unknown)::compressionType);
  }

  private static MemoryRecords idempotent(CompressionType type) {
    return MemoryRecords.withIdempotentRecords(
        Compression.of(type).build(), 7, (short) 1, 3, RECORD);
  }

  private static MutableRecordBatch only(ByteBuffer octets) {
    return MemoryRecords.readableRecords(octets).batches().iterator().next();
  }
}
