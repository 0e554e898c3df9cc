package io.weir.jobs.sink;

import java.io.DataInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.CRC32C;
import org.apache.flink.core.fs.FSDataInputStream;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;
import org.apache.flink.runtime.execution.SuppressRestartsException;

/**
 * Rows on the checkpoint storage that a checkpoint lists and ClickHouse has not yet acknowledged.
 *
 * @param path of a file with blocks of the Native format in one zstd frame
 * @param token never used for other rows: run/table/checkpoint/subtask/number
 * @param rows in the file
 * @param bytes length of the file
 * @param checksum CRC-32C of the file
 * @param written when the file was closed, ms from 1970
 * @param before number of the table's blocks whose insert had begun when this block may have been
 *     inserted for the first time, see {@link InsertMarks#blocks}; -1 if no insert was begun
 */
public record PendingFile(
    String path, String token, long rows, long bytes, long checksum, long written, long before) {
  private static final String SUFFIX = ".native.zst";
  private static final Pattern NAME = Pattern.compile(".*-(\\d{1,9})-\\d+" + Pattern.quote(SUFFIX));

  /**
   * The same file, marked as possibly inserted after the inserts of this many blocks of the table
   * had begun.
   */
  PendingFile triedAt(long blocks) {
    return new PendingFile(path, token, rows, bytes, checksum, written, blocks);
  }

  /**
   * The blocks. A missing file, or one that was changed, is an error that a restart cannot cure.
   */
  byte[] read(FileSystem files) throws IOException {
    byte[] body = new byte[Math.toIntExact(bytes)];
    try (FSDataInputStream in = files.open(new Path(path))) {
      new DataInputStream(in).readFully(body);
    } catch (FileNotFoundException e) {
      throw new SuppressRestartsException(
          new IOException(
              String.format(
                  "pending file %s of token %s (%d rows) is missing: the state is older than what is stored, or"
                      + " somebody removed the file. Start from the newest checkpoint, with the files beside it; where"
                      + " they are lost, the ledger shows the rows, and --resume none starts without them",
                  path, token, rows),
              e));
    }
    CRC32C found = new CRC32C();
    found.update(body, 0, body.length);
    if (found.getValue() != checksum) {
      throw new SuppressRestartsException(
          new IOException("the checksum of " + path + " is wrong: the storage changed it"));
    }
    return body;
  }

  /** Name of the file with the rows of a token. */
  static String name(String token) {
    return token.replace('/', '-') + SUFFIX;
  }

  /** Number of the subtask that wrote the file of this name; -1 if it is not such a file. */
  static int writer(String name) {
    Matcher match = NAME.matcher(name);
    return match.matches() ? Integer.parseInt(match.group(1)) : -1;
  }

  /** Name of the rows' table. */
  String table() {
    return token.split("/", -1)[1];
  }

  /** The first checkpoint that listed it. */
  long checkpoint() {
    return Long.parseLong(token.split("/", -1)[2]);
  }

  /** Number of the subtask that wrote the file. */
  int writer() {
    return Integer.parseInt(token.split("/", -1)[3]);
  }
}
