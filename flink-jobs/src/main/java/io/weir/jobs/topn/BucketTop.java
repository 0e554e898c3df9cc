package io.weir.jobs.topn;

import io.weir.jobs.serde.WireSerializer;
import io.weir.jobs.serde.WireType;
import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * One bucket's list for one window and scope.
 *
 * @param probe empty over all
 * @param window start, ms from 1970
 * @param bucket id of the bucket
 * @param reported probes whose window was complete
 * @param expected probes that are enrolled, 1 for a probe's own list
 * @param octets of all flows and overflow records of the bucket
 * @param packets likewise
 * @param flows distinct five-tuples of the bucket
 * @param overflow octets of overflow records
 * @param entries the largest flows as in {@link FlowTable}, in order
 */
record BucketTop(
    String probe,
    long window,
    int bucket,
    int reported,
    int expected,
    long octets,
    long packets,
    long flows,
    long overflow,
    long[] entries) {
  static final WireType<BucketTop> TYPE = new WireType<>(BucketTop.class, new Serializer());

  /** Writes a {@link BucketTop}. */
  public static final class Serializer extends WireSerializer<BucketTop> {
    private static final long serialVersionUID = 1;

    @Override
    public void write(BucketTop top, DataOutputView out) throws IOException {
      out.writeUTF(top.probe);
      out.writeLong(top.window);
      out.writeInt(top.bucket);
      out.writeInt(top.reported);
      out.writeInt(top.expected);
      out.writeLong(top.octets);
      out.writeLong(top.packets);
      out.writeLong(top.flows);
      out.writeLong(top.overflow);
      Longs.write(top.entries, top.entries.length, out);
    }

    @Override
    public BucketTop read(DataInputView in) throws IOException {
      return new BucketTop(
          in.readUTF(),
          in.readLong(),
          in.readInt(),
          in.readInt(),
          in.readInt(),
          in.readLong(),
          in.readLong(),
          in.readLong(),
          in.readLong(),
          Longs.read(in));
    }
  }
}
