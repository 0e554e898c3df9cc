package io.weir.kafka;

import java.nio.ByteBuffer;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;

/**
 * A compressed batch that nobody may decompress. The broker answers a producer with
 * MESSAGE_TOO_LARGE.
 */
public final class RefusedBatch extends RecordTooLargeException {
  private static final long serialVersionUID = 1;

  /** Why a batch is refused. */
  public enum Cause {
    /** More octets than {@link BoundedCompression#bound}. */
    TOO_LARGE,
    /** More than {@link BoundedRecords#MAX_RECORDS}. */
    TOO_MANY_RECORDS,
    /** Not what its codec or Kafka writes. */
    MALFORMED
  }

  private static final int MAX_TIMESTAMP_AT = 35;

  private final Cause why;
  private final long lastOffset;
  private final long appended;

  private RefusedBatch(Cause why, String text, long lastOffset, long appended) {
    super(text);
    this.why = why;
    this.lastOffset = lastOffset;
    this.appended = appended;
  }

  /** The refusal of a batch of version 2; {@code batch} may be anywhere in it. */
  static RefusedBatch of(ByteBuffer batch, Cause why, String text) {
    if (batch.limit() < DefaultRecordBatch.RECORD_BATCH_OVERHEAD) {
      return new RefusedBatch(why, text, -1, -1);
    }
    long last = batch.getLong(0) + batch.getInt(DefaultRecordBatch.LAST_OFFSET_DELTA_OFFSET);
    return new RefusedBatch(why, text, last, batch.getLong(MAX_TIMESTAMP_AT));
  }

  public Cause why() {
    return why;
  }

  /** The offset of its last record, as its header states it. */
  public long lastOffset() {
    return lastOffset;
  }

  /** Its latest timestamp in ms, with LogAppendTime the time at which the broker received it. */
  public long appended() {
    return appended;
  }
}
