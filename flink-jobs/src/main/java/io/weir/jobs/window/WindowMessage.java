package io.weir.jobs.window;

import io.weir.jobs.serde.WireSerializer;
import io.weir.jobs.serde.WireType;
import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * What the buckets of the windows hear.
 *
 * @param kind what came
 * @param bucket one of {@link Buckets#IDS}
 * @param probe whose; empty for {@link Kind#ENROLLED}
 * @param window start of the window, ms from 1970; PART only
 * @param entries of a PART, and how the probe is declared
 * @param rank of the probe; PART only
 * @param data numbers, by kind
 * @param sketches of overflow records, see {@link Sketches}; PART only
 */
record WindowMessage(
    Kind kind,
    int bucket,
    String probe,
    long window,
    int entries,
    int rank,
    long[] data,
    long[] sketches) {
  static final WireType<WindowMessage> TYPE = new WireType<>(WindowMessage.class, new Serializer());

  private static final long[] NONE = {};

  /** What came. */
  enum Kind {
    /** Flows of one probe and window, {@link Packed}. */
    PART,
    /** A worker has closed its intervals: worker, workers of the probe, epoch, until when (ms). */
    MARK,
    /** How many probes are enrolled. */
    ENROLLED
  }

  static WindowMessage mark(int bucket, String probe, long... data) {
    return new WindowMessage(Kind.MARK, bucket, probe, 0, 0, 0, data, NONE);
  }

  static WindowMessage enrolled(int bucket, int probes) {
    return new WindowMessage(Kind.ENROLLED, bucket, "", 0, 0, 0, new long[] {probes}, NONE);
  }

  /** Writes a {@link WindowMessage}. */
  public static final class Serializer extends WireSerializer<WindowMessage> {
    private static final long serialVersionUID = 1;

    @Override
    public void write(WindowMessage message, DataOutputView out) throws IOException {
      out.writeByte(message.kind.ordinal());
      out.writeInt(message.bucket);
      out.writeUTF(message.probe);
      out.writeLong(message.window);
      out.writeInt(message.entries);
      out.writeInt(message.rank);
      Longs.write(message.data, message.data.length, out);
      Longs.write(message.sketches, message.sketches.length, out);
    }

    @Override
    public WindowMessage read(DataInputView in) throws IOException {
      Kind kind = Kind.values()[in.readByte()];
      return new WindowMessage(
          kind,
          in.readInt(),
          in.readUTF(),
          in.readLong(),
          in.readInt(),
          in.readInt(),
          Longs.read(in),
          Longs.read(in));
    }
  }
}
