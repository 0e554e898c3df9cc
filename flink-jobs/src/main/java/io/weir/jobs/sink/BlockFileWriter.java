package io.weir.jobs.sink;

import com.github.luben.zstd.ZstdOutputStream;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.util.zip.CRC32C;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;

/**
 * Writes blocks of one partition into one file: a single zstd frame, so that any decoder reads all
 * of it.
 */
final class BlockFileWriter {
  /** The fast level is enough: columns of small numbers shrink to a fifth at any level. */
  private static final int LEVEL = 1;

  private final Path path;
  private final String token;
  private final Counted raw;
  private final OutputStream zstd;
  private long rows;

  private static final class Counted extends FilterOutputStream {
    final CRC32C checksum = new CRC32C();
    long bytes;

    Counted(OutputStream out) {
      super(out);
    }

    @Override
    public void write(int b) throws IOException {
      out.write(b);
      checksum.update(b);
      bytes++;
    }

    @Override
    public void write(byte[] data, int from, int length) throws IOException {
      out.write(data, from, length);
      checksum.update(data, from, length);
      bytes += length;
    }
  }

  BlockFileWriter(FileSystem files, Path path, String token) throws IOException {
    this.path = path;
    this.token = token;
    raw = new Counted(files.create(path, FileSystem.WriteMode.NO_OVERWRITE));
    zstd = new ZstdOutputStream(raw, LEVEL);
  }

  void write(NativeBlock block) throws IOException {
    zstd.write(block.bytes(), 0, block.length());
    rows += block.rows();
  }

  long rows() {
    return rows;
  }

  /** Octets in the file so far; this lags slightly behind the octets written. */
  long bytes() {
    return raw.bytes;
  }

  PendingFile close(long now) throws IOException {
    zstd.close();
    return new PendingFile(
        path.toString(), token, rows, raw.bytes, raw.checksum.getValue(), now, -1);
  }

  void abandon() throws IOException {
    zstd.close();
  }
}
