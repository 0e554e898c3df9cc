package org.apache.kafka.common.compress;

import io.weir.kafka.BoundedCompression;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Takes the place of Kafka's interface of this name, in the jobs and in the stack's broker, as it
 * comes before Kafka's libraries there. It has the same methods. Kafka asks {@link
 * #of(CompressionType)} whenever it reads a compressed batch, and so gets {@link
 * BoundedCompression}.
 */
public interface Compression {
  NoCompression NONE = none().build();

  CompressionType type();

  OutputStream wrapForOutput(ByteBufferOutputStream bufferStream, byte messageVersion);

  InputStream wrapForInput(
      ByteBuffer buffer, byte messageVersion, BufferSupplier decompressionBufferSupplier);

  default int decompressionOutputSize() {
    throw new UnsupportedOperationException(type().name);
  }

  interface Builder<T extends Compression> {
    T build();
  }

  static Builder<? extends Compression> of(String compressionName) {
    return of(CompressionType.forName(compressionName));
  }

  static Builder<? extends Compression> of(CompressionType compressionType) {
    return switch (compressionType) {
      case NONE -> none();
      case GZIP -> bounded(gzip());
      case SNAPPY -> bounded(snappy());
      case LZ4 -> bounded(lz4());
      case ZSTD -> bounded(zstd());
    };
  }

  private static Builder<Compression> bounded(Builder<? extends Compression> codec) {
    return () -> new BoundedCompression(codec.build());
  }

  static NoCompression.Builder none() {
    return new NoCompression.Builder();
  }

  static GzipCompression.Builder gzip() {
    return new GzipCompression.Builder();
  }

  static SnappyCompression.Builder snappy() {
    return new SnappyCompression.Builder();
  }

  static Lz4Compression.Builder lz4() {
    return new Lz4Compression.Builder();
  }

  static ZstdCompression.Builder zstd() {
    return new ZstdCompression.Builder();
  }
}
