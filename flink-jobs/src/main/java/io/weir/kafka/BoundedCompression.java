package io.weir.kafka;

import com.github.luben.zstd.ZstdInputStreamNoFinalizer;
import io.weir.kafka.BoundedRecords.Excess;
import io.weir.kafka.RefusedBatch.Cause;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.compress.ZstdCompression;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.xerial.snappy.Snappy;

/**
 * A codec of Kafka that reads a compressed batch within bounds, and whole, before anybody sees a
 * record of it.
 *
 * <p>Kafka itself reserves as many octets as a record, a chunk of Snappy or a window of Zstandard
 * announces, and its broker does not check what a compressed record announces. Batches that this
 * class lets through hold the records that they announce.
 */
public final class BoundedCompression implements Compression {
  /** Octets of a batch once decompressed: the broker's {@code message.max.bytes}. */
  static final int MAX_OCTETS = 8 << 20;

  /** Octets that any batch may have once decompressed, however small it is. */
  static final int SMALL_OCTETS = 64 << 10;

  /** Octets for each compressed octet: an agent's batches of equal messages have some 90. */
  static final int MAX_RATIO = 1000;

  /** Two to this power are the octets of a window of Zstandard that is reserved for a batch. */
  private static final int ZSTD_WINDOW = 23;

  private static final byte[] SNAPPY_CHUNKS = {(byte) 0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};
  private static final int SNAPPY_HEADER = 16;

  private final Compression codec;

  public BoundedCompression(Compression codec) {
    this.codec = codec;
  }

  @Override
  public CompressionType type() {
    return codec.type();
  }

  @Override
  public OutputStream wrapForOutput(ByteBufferOutputStream stream, byte version) {
    return codec.wrapForOutput(stream, version);
  }

  @Override
  public int decompressionOutputSize() {
    return codec.decompressionOutputSize();
  }

  /** The records, decompressed. Throws {@link RefusedBatch}. */
  @Override
  public InputStream wrapForInput(ByteBuffer buffer, byte version, BufferSupplier buffers) {
    Octets octets = new Octets(bound(buffer.remaining()));
    try {
      if (type() == CompressionType.SNAPPY) {
        snappy(buffer, octets);
      } else {
        try (InputStream in = stream(buffer, version, buffers)) {
          octets.read(in);
        }
      }
      BoundedRecords.check(ByteBuffer.wrap(octets.array, 0, octets.length));
    } catch (Excess e) {
      throw RefusedBatch.of(buffer, e.why, e.getMessage());
    } catch (IOException | KafkaException | BufferUnderflowException | IllegalArgumentException e) {
      throw RefusedBatch.of(buffer, Cause.MALFORMED, e.toString());
    }
    return new ByteArrayInputStream(octets.array, 0, octets.length);
  }

  /** Octets that a batch of {@code compressed} octets may have once decompressed. */
  static int bound(int compressed) {
    return (int) Math.min(MAX_OCTETS, SMALL_OCTETS + (long) compressed * MAX_RATIO);
  }

  private InputStream stream(ByteBuffer buffer, byte version, BufferSupplier buffers)
      throws IOException {
    if (type() != CompressionType.ZSTD) {
      return codec.wrapForInput(buffer, version, buffers);
    }
    ZstdInputStreamNoFinalizer in = ZstdCompression.wrapForZstdInput(buffer, buffers);
    return in.setLongMax(ZSTD_WINDOW);
  }

  /** Snappy's own stream reserves what a chunk announces. */
  private static void snappy(ByteBuffer buffer, Octets octets) throws IOException, Excess {
    byte[] all = new byte[buffer.remaining()];
    buffer.get(all);
    if (!Arrays.equals(
        all,
        0,
        Math.min(all.length, SNAPPY_CHUNKS.length),
        SNAPPY_CHUNKS,
        0,
        SNAPPY_CHUNKS.length)) {
      octets.uncompress(all, 0, all.length);
      return;
    }
    ByteBuffer chunks = ByteBuffer.wrap(all);
    chunks.position(Math.min(all.length, SNAPPY_HEADER));
    while (chunks.remaining() >= Integer.BYTES) {
      int length = chunks.getInt();
      if (length < 0 || length > chunks.remaining()) {
        throw new IOException("a chunk of " + length + " octets");
      }
      octets.uncompress(all, chunks.position(), length);
      chunks.position(chunks.position() + length);
    }
  }

  /** Octets up to a bound. */
  private static final class Octets {
    private final int bound;
    private byte[] array;
    private int length;

    Octets(int bound) {
      this.bound = bound;
      array = new byte[Math.min(bound, SMALL_OCTETS)];
    }

    void read(InputStream in) throws IOException, Excess {
      while (true) {
        if (length == array.length) {
          int next = in.read();
          if (next < 0) {
            return;
          }
          room(1);
          array[length++] = (byte) next;
        }
        int got = in.read(array, length, array.length - length);
        if (got < 0) {
          return;
        }
        length += got;
      }
    }

    void uncompress(byte[] from, int offset, int octets) throws IOException, Excess {
      int announced = Snappy.uncompressedLength(from, offset, octets);
      if (announced < 0) {
        throw new IOException("a chunk of Snappy that announces " + announced + " octets");
      }
      room(announced);
      length += Snappy.uncompress(from, offset, octets, array, length);
    }

    private void room(int octets) throws Excess {
      long needed = (long) length + octets;
      if (needed > bound) {
        throw new Excess(Cause.TOO_LARGE, "more than " + bound + " octets once decompressed");
      }
      if (needed > array.length) {
        array = Arrays.copyOf(array, (int) Math.min(bound, Math.max(needed, 2L * array.length)));
      }
    }
  }
}
