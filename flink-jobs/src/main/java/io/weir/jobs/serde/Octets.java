package io.weir.jobs.serde;

import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** Octets, with their number before them. */
public final class Octets {
  private Octets() {}

  /** Writes all of {@code bytes}. */
  public static void write(byte[] bytes, DataOutputView out) throws IOException {
    out.writeInt(bytes.length);
    out.write(bytes);
  }

  /** Reads what {@link #write} wrote. */
  public static byte[] read(DataInputView in) throws IOException {
    byte[] bytes = new byte[in.readInt()];
    in.readFully(bytes);
    return bytes;
  }
}
