package io.weir.jobs.topn;

import io.weir.jobs.serde.WireSerializer;
import io.weir.jobs.serde.WireType;
import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * What the buckets of topn hear.
 *
 * @param bucket one of {@link Buckets#IDS}
 * @param probe whose; empty for {@link Kind#ENROLLED}
 * @param window start of the window, ms from 1970; PART only
 * @param data numbers, by kind
 */
record TopnMessage(Kind kind, int bucket, String probe, long window, long[] data) {
  static final WireType<TopnMessage> TYPE = new WireType<>(TopnMessage.class, new Serializer());

  /** Where the entries begin in the data of a PART, after the sums over overflow records. */
  static final int ENTRIES = 2;

  /** What came. */
  enum Kind {
    /**
     * Sums of some records: packets and octets of overflow records, then entries as in {@link
     * FlowTable}.
     */
    PART,
    /** A worker has closed its intervals: worker, workers of the probe, epoch, until when (ms). */
    MARK,
    /** How many probes are enrolled. */
    ENROLLED
  }

  /** Writes a {@link TopnMessage}. */
  public static final class Serializer extends WireSerializer<TopnMessage> {
    private static final long serialVersionUID = 1;

    @Override
    public void write(TopnMessage message, DataOutputView out) throws IOException {
      out.writeByte(message.kind.ordinal());
      out.writeInt(message.bucket);
      out.writeUTF(message.probe);
      out.writeLong(message.window);
      Longs.write(message.data, message.data.length, out);
    }

    @Override
    public TopnMessage read(DataInputView in) throws IOException {
      Kind kind = Kind.values()[in.readByte()];
      return new TopnMessage(kind, in.readInt(), in.readUTF(), in.readLong(), Longs.read(in));
    }
  }
}
