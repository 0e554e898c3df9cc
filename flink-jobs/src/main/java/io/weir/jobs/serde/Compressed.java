package io.weir.jobs.serde;

import com.github.luben.zstd.Zstd;
import com.github.luben.zstd.ZstdCompressCtx;
import com.github.luben.zstd.ZstdDecompressCtx;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * Numbers and octets that are kept and rarely read, compressed by Zstandard. Equal ones have equal
 * results.
 */
public final class Compressed {
  /** Nothing. */
  public static final byte[] NONE = {};

  /** The level for numbers, which are many and short-lived: the fastest. */
  private static final int FASTEST = 1;

  /**
   * Contexts that no thread uses: to make one takes longer than to compress a few hundred octets.
   * They are not the threads' own, because nothing frees their memory when a thread ends.
   */
  private static final Queue<ZstdCompressCtx> COMPRESS = new ConcurrentLinkedQueue<>();

  private static final Queue<ZstdDecompressCtx> DECOMPRESS = new ConcurrentLinkedQueue<>();

  private Compressed() {}

  /** Compresses all numbers. */
  public static byte[] of(long[] numbers) {
    byte[] octets = new byte[numbers.length * Long.BYTES];
    ByteBuffer.wrap(octets).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer().put(numbers);
    return of(octets, FASTEST);
  }

  /** Compresses all octets, at a level of Zstandard. */
  public static byte[] of(byte[] octets, int level) {
    return octets.length == 0
        ? NONE
        : using(COMPRESS, ZstdCompressCtx::new, one -> one.setLevel(level).compress(octets));
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
    if (compressed.length == 0) {
      return NONE;
    }
    int length = (int) Zstd.getFrameContentSize(compressed);
    return using(DECOMPRESS, ZstdDecompressCtx::new, one -> one.decompress(compressed, length));
  }

  /** Uses a free context, or a new one; it is free afterwards. */
  private static <C> byte[] using(Queue<C> free, Supplier<C> make, Function<C, byte[]> work) {
    C polled = free.poll();
    C context = polled == null ? make.get() : polled;
    try {
      return work.apply(context);
    } finally {
      free.add(context);
    }
  }
}
