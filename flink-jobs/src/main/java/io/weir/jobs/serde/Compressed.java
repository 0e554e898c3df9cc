package io.weir.jobs.serde;

import com.github.luben.zstd.Zstd;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Numbers that are kept for minutes and rarely read, in a fifth of the space: compressed by
 * Zstandard at its fastest level. Equal numbers have equal octets.
 */
public final class Compressed {
  /** No numbers. */
  public static final byte[] NONE = {};

  private static final int FASTEST = 1;

  private Compressed() {}

  /** Compresses all numbers. */
  public static byte[] of(long[] numbers) {
    if (numbers.length == 0) {
      return NONE;
    }
    byte[] octets = new byte[numbers.length * Long.BYTES];
    ByteBuffer.wrap(octets).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer().put(numbers);
    return Zstd.compress(octets, FASTEST);
  }

  /** The numbers that {@link #of} compressed. */
  public static long[] numbers(byte[] compressed) {
    if (compressed.length == 0) {
      return new long[0];
    }
    int length = (int) Zstd.getFrameContentSize(compressed);
    byte[] octets = Zstd.decompress(compressed, length);
    long[] numbers = new long[length / Long.BYTES];
    ByteBuffer.wrap(octets).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer().get(numbers);
    return numbers;
  }
}
