package io.weir.jobs.serde;

import com.github.luben.zstd.Zstd;
import com.github.luben.zstd.ZstdCompressCtx;
import com.github.luben.zstd.ZstdDecompressCtx;
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

  /**
   * A thread's contexts: to make one takes longer than to compress a few hundred octets. Their
   * memory outside the heap is freed with the thread.
   */
  private static final ThreadLocal<ZstdCompressCtx> COMPRESS =
      ThreadLocal.withInitial(ZstdCompressCtx::new);

  private static final ThreadLocal<ZstdDecompressCtx> DECOMPRESS =
      ThreadLocal.withInitial(ZstdDecompressCtx::new);

  private Compressed() {}

  /** Compresses all numbers. */
  public static byte[] of(long[] numbers) {
    byte[] octets = new byte[numbers.length * Long.BYTES];
    ByteBuffer.wrap(octets).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer().put(numbers);
    return of(octets, FASTEST);
  }

  /** Compresses all octets, at a level of Zstandard. */
  public static byte[] of(byte[] octets, int level) {
    return octets.length == 0 ? NONE : COMPRESS.get().setLevel(level).compress(octets);
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
        : DECOMPRESS.get().decompress(compressed, (int) Zstd.getFrameContentSize(compressed));
  }
}
