package org.apache.kafka.common.record.internal;

import io.weir.kafka.BoundedRecords;
import java.nio.ByteBuffer;
import java.util.Iterator;
import org.apache.kafka.common.errors.CorruptRecordException;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;

/**
 * Takes the place of Kafka's class of this name, as {@link
 * org.apache.kafka.common.compress.Compression} does: every batch that comes over the network is
 * made here, and the records of those that nobody compressed are checked.
 */
class ByteBufferLogInputStream implements LogInputStream<MutableRecordBatch> {
  private final ByteBuffer buffer;
  private final int maxMessageSize;

  ByteBufferLogInputStream(ByteBuffer buffer, int maxMessageSize) {
    this.buffer = buffer;
    this.maxMessageSize = maxMessageSize;
  }

  @Override
  public MutableRecordBatch nextBatch() {
    Integer size = nextBatchSize();
    if (size == null || size > buffer.remaining()) {
      return null;
    }
    ByteBuffer batch = buffer.slice().limit(size);
    buffer.position(buffer.position() + size);
    if (batch.get(Records.MAGIC_OFFSET) < RecordBatch.MAGIC_VALUE_V2) {
      return new AbstractLegacyRecordBatch.ByteBufferLegacyRecordBatch(batch);
    }
    if (BoundedRecords.WITHOUT_PRODUCER_IDS) {
      BoundedRecords.forgetProducer(batch);
    }
    return new Checked(batch);
  }

  /** Octets of the next batch with its header; null if that is incomplete. */
  Integer nextBatchSize() throws CorruptRecordException {
    if (buffer.remaining() < Records.LOG_OVERHEAD) {
      return null;
    }
    int size = buffer.getInt(buffer.position() + Records.SIZE_OFFSET);
    if (size < LegacyRecord.RECORD_OVERHEAD_V0 || size > maxMessageSize) {
      throw new CorruptRecordException("a batch of " + size + " octets");
    }
    if (buffer.remaining() < Records.HEADER_SIZE_UP_TO_MAGIC) {
      return null;
    }
    byte magic = buffer.get(buffer.position() + Records.MAGIC_OFFSET);
    if (magic < 0 || magic > RecordBatch.CURRENT_MAGIC_VALUE) {
      throw new CorruptRecordException("a batch of version " + magic);
    }
    return size + Records.LOG_OVERHEAD;
  }

  /** A batch whose records are checked before Kafka makes objects of them. */
  private static final class Checked extends DefaultRecordBatch {
    private final ByteBuffer batch;

    Checked(ByteBuffer batch) {
      super(batch);
      this.batch = batch;
    }

    @Override
    public CompressionType compressionType() {
      BoundedRecords.checkCodec(batch);
      return super.compressionType();
    }

    @Override
    public Iterator<Record> iterator() {
      check();
      return super.iterator();
    }

    @Override
    public CloseableIterator<Record> streamingIterator(BufferSupplier buffers) {
      check();
      return super.streamingIterator(buffers);
    }

    @Override
    public CloseableIterator<Record> skipKeyValueIterator(BufferSupplier buffers) {
      check();
      return super.skipKeyValueIterator(buffers);
    }

    private void check() {
      if (!isCompressed()) {
        BoundedRecords.checkUncompressed(batch);
      }
    }
  }
}
