package io.weir.kafka;

import io.weir.kafka.RefusedBatch.Cause;
import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.ByteUtils;
import org.apache.kafka.common.utils.Crc32C;

/** Checks the records of a batch without making an object of any. */
public final class BoundedRecords {
  /**
   * Records and headers of a batch: agents send 10,000 at most. Kafka makes an object of 80 octets
   * of a header of two.
   */
  static final int MAX_RECORDS = 100_000;

  /**
   * Whether batches lose the ids of their producers, as in the stack's broker. A broker remembers
   * each id for a partition, some 350 octets for a day, and nobody has to ask it for an id: a probe
   * can invent as many as it likes.
   */
  public static final boolean WITHOUT_PRODUCER_IDS = Boolean.getBoolean("io.weir.noproducerids");

  private static final int CRC_AT = 17;
  private static final int ATTRIBUTES_AT = 21;
  private static final int PRODUCER_ID_AT = 43;
  private static final int PRODUCER_EPOCH_AT = 51;
  private static final int BASE_SEQUENCE_AT = 53;
  private static final int CODEC = 7; // attributes
  private static final int OF_TRANSACTIONS = 0x30; // attributes: transactional, control

  /** More of something than a bound. */
  static final class Excess extends Exception {
    private static final long serialVersionUID = 1;
    final Cause why;

    Excess(Cause why, String text) {
      super(text, null, false, false);
      this.why = why;
    }
  }

  private BoundedRecords() {}

  /**
   * Checks a batch of version 2, from its first octet, that nobody compressed; {@link
   * BoundedCompression} has the others. Throws {@link RefusedBatch}.
   */
  public static void checkUncompressed(ByteBuffer batch) {
    ByteBuffer records = batch.duplicate();
    records.position(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
    try {
      check(records);
    } catch (Excess e) {
      throw RefusedBatch.of(batch, e.why, e.getMessage());
    } catch (IOException | BufferUnderflowException | IllegalArgumentException e) {
      throw RefusedBatch.of(batch, Cause.MALFORMED, e.toString());
    }
  }

  /**
   * Makes a batch of version 2, from its first octet, one of a producer without idempotence. Leaves
   * it unchanged if it belongs to a transaction, which the broker permits to nobody who has not
   * named it, or if its checksum is wrong.
   */
  public static void forgetProducer(ByteBuffer batch) {
    if (batch.isReadOnly()
        || batch.limit() < DefaultRecordBatch.RECORD_BATCH_OVERHEAD
        || batch.getLong(PRODUCER_ID_AT) == RecordBatch.NO_PRODUCER_ID
        || (batch.getShort(ATTRIBUTES_AT) & OF_TRANSACTIONS) != 0
        || batch.getInt(CRC_AT) != checksum(batch)) {
      return;
    }
    batch.putLong(PRODUCER_ID_AT, RecordBatch.NO_PRODUCER_ID);
    batch.putShort(PRODUCER_EPOCH_AT, RecordBatch.NO_PRODUCER_EPOCH);
    batch.putInt(BASE_SEQUENCE_AT, RecordBatch.NO_SEQUENCE);
    batch.putInt(CRC_AT, checksum(batch));
  }

  private static int checksum(ByteBuffer batch) {
    return (int) Crc32C.compute(batch, ATTRIBUTES_AT, batch.limit() - ATTRIBUTES_AT);
  }

  /** Checks that Kafka has the codec of a batch of version 2. Throws {@link RefusedBatch}. */
  public static void checkCodec(ByteBuffer batch) {
    int codec = batch.getShort(ATTRIBUTES_AT) & CODEC;
    if (codec > CompressionType.ZSTD.id) {
      throw RefusedBatch.of(batch, Cause.MALFORMED, "no codec has the number " + codec);
    }
  }

  /**
   * Whether records are what they announce, with offsets that ascend; headers count as records do.
   */
  static void check(ByteBuffer records) throws Excess, IOException {
    int last = -1;
    for (int count = 0; records.hasRemaining(); ) {
      int size = ByteUtils.readVarint(records);
      int end = records.position() + size;
      if (size < 0 || size > records.remaining()) {
        throw new IOException("a record of " + size + " octets");
      }
      records.get(); // attributes
      ByteUtils.readVarlong(records); // time
      int offset = ByteUtils.readVarint(records);
      if (offset <= last) {
        throw new IOException("a record with the offset " + offset + " after " + last);
      }
      last = offset;
      skip(records, ByteUtils.readVarint(records)); // key
      skip(records, ByteUtils.readVarint(records)); // value
      int headers = ByteUtils.readVarint(records);
      if (headers < 0) {
        throw new IOException(headers + " headers");
      }
      if (headers > MAX_RECORDS - ++count) {
        throw new Excess(Cause.TOO_MANY_RECORDS, "more than " + MAX_RECORDS + " records");
      }
      count += headers;
      for (; headers > 0; headers--) {
        int key = ByteUtils.readVarint(records);
        if (key < 0) {
          throw new IOException("a header whose key has " + key + " octets");
        }
        skip(records, key);
        skip(records, ByteUtils.readVarint(records));
      }
      if (records.position() != end) {
        throw new IOException("a record that does not end where it should");
      }
    }
  }

  /** Skips {@code octets}; a negative number means that there is no key or value. */
  private static void skip(ByteBuffer records, int octets) throws IOException {
    if (octets > records.remaining()) {
      throw new IOException("a key or value of " + octets + " octets");
    }
    records.position(records.position() + Math.max(0, octets));
  }
}
