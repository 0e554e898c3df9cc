package io.weir.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.weir.kafka.RefusedBatch.Cause;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.ByteUtils;
import org.apache.kafka.common.utils.CloseableIterator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.xerial.snappy.Snappy;

/** What Kafka's own code, in the jobs and in the broker, reads of a batch. */
class BoundedCompressionTest {
  private static final int ZEROS = 100 << 20;

  @ParameterizedTest
  @EnumSource(CompressionType.class)
  void whatAnybodyCompressesIsReadUnchanged(CompressionType type) throws IOException {
    byte[] value = new byte[300_000];
    new Random(1).nextBytes(value);
    Arrays.fill(value, 1000, 200_000, (byte) 7);
    List<Record> read = new ArrayList<>();
    MemoryRecords records =
        MemoryRecords.withRecords(
            Compression.of(type).build(),
            new SimpleRecord(5, null, value),
            new SimpleRecord(6, new byte[] {1}, null, new Header[] {new RecordHeader("h", null)}));
    records.batches().forEach(batch -> batch.forEach(read::add));
    byte[] got = new byte[value.length];
    read.get(0).value().get(got);
    assertArrayEquals(value, got);
    assertEquals("h", read.get(1).headers()[0].key());
    assertEquals(2, read.size());
  }

  @ParameterizedTest
  @EnumSource(value = CompressionType.class, names = "NONE", mode = EnumSource.Mode.EXCLUDE)
  void aBatchThatIsTooLargeOnceDecompressedIsRefused(CompressionType type) throws IOException {
    byte[] announced = body(out -> ByteUtils.writeVarint(ZEROS, out), new byte[ZEROS]);
    RefusedBatch refused = refused(batch(type, 1, announced));
    assertEquals(Cause.TOO_LARGE, refused.why());
    assertEquals(1000, refused.lastOffset());
    assertEquals(77, refused.appended());
  }

  @ParameterizedTest
  @EnumSource(value = CompressionType.class, names = "NONE", mode = EnumSource.Mode.EXCLUDE)
  void aRecordHasWhatItAnnounces(CompressionType type) throws IOException {
    byte[] announced = body(out -> ByteUtils.writeVarint(2_000_000_000, out), new byte[100]);
    assertEquals(Cause.MALFORMED, refused(batch(type, 1, announced)).why());
    byte[] value = {0, 0, 0, 1, 100, 0, 0}; // a value of 50 octets
    assertEquals(
        Cause.MALFORMED,
        refused(batch(type, 1, body(out -> ByteUtils.writeVarint(7, out), value))).why());
  }

  @Test
  void manySmallRecordsAreRefused() throws IOException {
    ByteArrayOutputStream many = new ByteArrayOutputStream();
    for (int i = 0; i <= BoundedRecords.MAX_RECORDS; i++) {
      int size = 5 + ByteUtils.sizeOfVarint(i);
      ByteUtils.writeVarint(size, new DataOutputStream(many));
      many.write(new byte[2]); // attributes, time
      ByteUtils.writeVarint(i, new DataOutputStream(many));
      many.write(new byte[] {1, 1, 0}); // no key, no value, no headers
    }
    byte[] records = many.toByteArray();
    assertEquals(
        Cause.TOO_MANY_RECORDS,
        refused(batch(CompressionType.LZ4, BoundedRecords.MAX_RECORDS + 1, records)).why());
  }

  @Test
  void aChunkOfSnappyReservesNotWhatItAnnounces() throws IOException {
    byte[] chunk = Snappy.compress(new byte[10]);
    byte[] large = {(byte) 0xff, (byte) 0xff, (byte) 0xff, (byte) 0xff, 7, 0, 0};
    for (byte[] each : List.of(large, framed(large), framed(chunk, 1_999_999_999))) {
      RefusedBatch refused = refused(raw(CompressionType.SNAPPY, 1, each));
      assertNotEquals(Cause.TOO_MANY_RECORDS, refused.why());
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = CompressionType.class,
      names = "ZSTD",
      mode = EnumSource.Mode.EXCLUDE) // it makes that batch small enough to be TOO_LARGE
  void manyHeadersAreRefused(CompressionType type) throws IOException {
    int headers = BoundedRecords.MAX_RECORDS;
    byte[] head = {0, 0, 0, 1, 1};
    byte[] rest = new byte[2 * headers]; // each header has an empty key and an empty value
    byte[] count = body(out -> ByteUtils.writeVarint(headers, out), rest);
    byte[] record = body(out -> out.write(head), count);
    byte[] records = body(out -> ByteUtils.writeVarint(record.length, out), record);
    assertEquals(
        Cause.TOO_MANY_RECORDS,
        assertThrows(RefusedBatch.class, () -> refuse(batch(type, 1, records))).why());
  }

  private static byte[] framed(byte[] chunk, int... length) throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    DataOutputStream data = new DataOutputStream(out);
    data.write(new byte[] {(byte) 0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1});
    data.writeInt(length.length > 0 ? length[0] : chunk.length);
    data.write(chunk);
    return out.toByteArray();
  }

  private static RefusedBatch refused(DefaultRecordBatch batch) {
    assertThrows(RefusedBatch.class, () -> batch.skipKeyValueIterator(BufferSupplier.create()));
    return assertThrows(RefusedBatch.class, () -> refuse(batch));
  }

  private static void refuse(DefaultRecordBatch batch) {
    try (CloseableIterator<Record> all = batch.streamingIterator(BufferSupplier.create())) {
      all.forEachRemaining(record -> {});
    }
  }

  private interface Writer {
    void to(DataOutputStream out) throws IOException;
  }

  private static byte[] body(Writer head, byte[] rest) throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    head.to(new DataOutputStream(out));
    out.write(rest);
    return out.toByteArray();
  }

  private static DefaultRecordBatch batch(CompressionType type, int count, byte[] records)
      throws IOException {
    ByteBufferOutputStream to = new ByteBufferOutputStream(1 << 20);
    try (OutputStream out =
        Compression.of(type).build().wrapForOutput(to, RecordBatch.CURRENT_MAGIC_VALUE)) {
      out.write(records);
    }
    ByteBuffer written = to.buffer();
    written.flip();
    byte[] compressed = new byte[written.remaining()];
    written.get(compressed);
    return raw(type, count, compressed);
  }

  private static DefaultRecordBatch raw(CompressionType type, int count, byte[] compressed) {
    int size = DefaultRecordBatch.RECORD_BATCH_OVERHEAD + compressed.length;
    ByteBuffer buffer = ByteBuffer.allocate(size);
    buffer.position(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
    buffer.put(compressed);
    buffer.flip();
    DefaultRecordBatch.writeHeader(
        buffer,
        1001 - count,
        count - 1,
        size,
        RecordBatch.CURRENT_MAGIC_VALUE,
        type,
        TimestampType.LOG_APPEND_TIME,
        77,
        77,
        -1,
        (short) -1,
        -1,
        false,
        false,
        false,
        0,
        count);
    buffer.rewind();
    return (DefaultRecordBatch) MemoryRecords.readableRecords(buffer).batches().iterator().next();
  }
}
