package io.weir.jobs.sink;

import io.weir.jobs.serde.WireSerializer;
import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * Rows on the checkpoint storage that a checkpoint vouches for and that are not known to be in
 * ClickHouse.
 *
 * @param path of a file with blocks of the Native format in one zstd frame
 * @param token never used for other rows: run/table/checkpoint/subtask/number
 * @param rows in the file
 * @param bytes length of the file
 * @param checksum CRC-32C of the file
 * @param written when the file was closed, ms from 1970
 */
public record PendingFile(
    String path, String token, long rows, long bytes, long checksum, long written) {

  /** Name of the table that the rows are for. */
  String table() {
    return token.split("/", -1)[1];
  }

  /** Number of the subtask that wrote the file. */
  int writer() {
    return Integer.parseInt(token.split("/", -1)[3]);
  }

  /** Writes a {@link PendingFile}. */
  public static final class Serializer extends WireSerializer<PendingFile> {
    private static final long serialVersionUID = 1;

    @Override
    public void write(PendingFile file, DataOutputView out) throws IOException {
      out.writeUTF(file.path);
      out.writeUTF(file.token);
      out.writeLong(file.rows);
      out.writeLong(file.bytes);
      out.writeLong(file.checksum);
      out.writeLong(file.written);
    }

    @Override
    public PendingFile read(DataInputView in) throws IOException {
      return new PendingFile(
          in.readUTF(), in.readUTF(), in.readLong(), in.readLong(), in.readLong(), in.readLong());
    }
  }
}
