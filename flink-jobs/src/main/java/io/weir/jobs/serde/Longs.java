package io.weir.jobs.serde;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** Writes arrays of numbers as a block. */
public final class Longs {
  private static final int CHUNK = 2048;

  private Longs() {}

  public static void write(long[] numbers, int length, DataOutputView out) throws IOException {
    out.writeInt(length);
    byte[] bytes = new byte[Math.min(length, CHUNK) * 8];
    ByteBuffer buffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    for (int from = 0; from < length; from += CHUNK) {
      int count = Math.min(CHUNK, length - from);
      buffer.asLongBuffer().put(numbers, from, count);
      out.write(bytes, 0, count * 8);
    }
  }

  public static long[] read(DataInputView in) throws IOException {
    long[] numbers = new long[in.readInt()];
    byte[] bytes = new byte[Math.min(numbers.length, CHUNK) * 8];
    ByteBuffer buffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    for (int from = 0; from < numbers.length; from += CHUNK) {
      int count = Math.min(CHUNK, numbers.length - from);
      in.readFully(bytes, 0, count * 8);
      buffer.asLongBuffer().get(numbers, from, count);
    }
    return numbers;
  }

  /** Writes a whole array. */
  static final class Serializer extends WireSerializer<long[]> {
    private static final long serialVersionUID = 1;

    @Override
    public void write(long[] numbers, DataOutputView out) throws IOException {
      Longs.write(numbers, numbers.length, out);
    }

    @Override
    public long[] read(DataInputView in) throws IOException {
      return Longs.read(in);
    }
  }
}
