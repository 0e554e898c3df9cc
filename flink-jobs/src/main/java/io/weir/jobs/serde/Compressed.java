package io.weir.jobs.serde;

import com.github.luben.zstd.Zstd;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Numbers and octets that are kept and rarely read, compressed by Zstandard. Equal ones have equal
 * results.
 */
public final class Compressed {
  /** Nothing. */
  public static final byte[] NONE = {};

  /** The level for numbers, of which there are many and for minutes: the fastest. */
  private static final int FASTEST = 1;

  private Compressed() {}

  /** Compresses all numbers. */
  public static byte[] of(long[] numbers) {
    byte[] octets = new byte[numbers.length * Long.BYTES];
    ByteBuffer.wrap(octets).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer().put(numbers);
    return of(octets, FASTEST);
  }

  /** Compresses all octets, at a level of Zstandard. */
  public static byte[] of(byte[] octets, int level) {
    return octets.length == 0 ? NONE : Zstd.compress(octets, level);
  }

  /** The numbers that were compressed. */
  public static long[] numbers(byte[] compressed) {
    byte[] octets = octets(compressed);
    long[] numbers = new long[octets.length / Long.BYTES];
    ByteBuffer.wrap(octets).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer().get(numbers);
    return numbers;
  }

  /** The octets that were compressed. */
  public static byte[] octets(byte[] compressed) {
    return compressed.length == 0
        ? NONE
        : Zstd.decompress(compressed, (int) Zstd.getFrameContentSize(compressed));
  }
}
