package io.weir.jobs.window;

import io.weir.jobs.serde.WireSerializer;
import io.weir.jobs.serde.WireType;
import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * What one bucket says to one job of one window, for one probe or over all.
 *
 * @param job number of the job, see {@link Windows}
 * @param probe empty over all
 * @param window start, ms from 1970
 * @param bucket id of the bucket
 * @param reported probes whose window was complete
 * @param expected probes that are enrolled, 1 for a probe's own
 * @param data as the job's {@link Digester} and {@link RowMaker} agree on
 */
public record Digest(
    int job, String probe, long window, int bucket, int reported, int expected, long[] data) {
  public static final WireType<Digest> TYPE = new WireType<>(Digest.class, new Serializer());

  /** Writes a {@link Digest}. */
  public static final class Serializer extends WireSerializer<Digest> {
    private static final long serialVersionUID = 1;

    @Override
    public void write(Digest digest, DataOutputView out) throws IOException {
      out.writeByte(digest.job);
      out.writeUTF(digest.probe);
      out.writeLong(digest.window);
      out.writeInt(digest.bucket);
      out.writeInt(digest.reported);
      out.writeInt(digest.expected);
      Longs.write(digest.data, digest.data.length, out);
    }

    @Override
    public Digest read(DataInputView in) throws IOException {
      return new Digest(
          in.readByte(),
          in.readUTF(),
          in.readLong(),
          in.readInt(),
          in.readInt(),
          in.readInt(),
          Longs.read(in));
    }
  }
}
