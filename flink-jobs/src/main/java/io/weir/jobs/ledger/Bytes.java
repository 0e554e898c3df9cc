package io.weir.jobs.ledger;

import io.weir.jobs.message.RangeSet;
import io.weir.jobs.serde.Longs;
import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** Writes arrays and what is made of them. */
final class Bytes {
  private Bytes() {}

  static void write(byte[] bytes, DataOutputView out) throws IOException {
    out.writeInt(bytes == null ? -1 : bytes.length);
    if (bytes != null) {
      out.write(bytes);
    }
  }

  static byte[] read(DataInputView in) throws IOException {
    int length = in.readInt();
    if (length < 0) {
      return null;
    }
    byte[] bytes = new byte[length];
    in.readFully(bytes);
    return bytes;
  }

  static void writeRanges(RangeSet set, DataOutputView out) throws IOException {
    long[] bounds = set.toArray();
    Longs.write(bounds, bounds.length, out);
  }

  static void readRanges(RangeSet into, DataInputView in) throws IOException {
    long[] bounds = Longs.read(in);
    for (int i = 0; i + 1 < bounds.length; i += 2) {
      into.addRange(bounds[i], bounds[i + 1]);
    }
  }
}
