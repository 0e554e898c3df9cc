package io.weir.jobs.sink;

import io.weir.jobs.serde.WireType;

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
 * @param before how many blocks of the table were begun to be inserted when this one may have been
 *     for the first time, see {@link InsertMarks#blocks}; -1 where it was not
 */
public record PendingFile(
    String path, String token, long rows, long bytes, long checksum, long written, long before) {
  public static final WireType<PendingFile> TYPE = WireType.ofRecord(PendingFile.class);

  /**
   * The same, of which an insert may have been made when so many blocks of the table were begun.
   */
  PendingFile triedAt(long blocks) {
    return new PendingFile(path, token, rows, bytes, checksum, written, blocks);
  }

  /** Name of the table that the rows are for. */
  String table() {
    return token.split("/", -1)[1];
  }

  /** The first checkpoint that vouched for it. */
  long checkpoint() {
    return Long.parseLong(token.split("/", -1)[2]);
  }

  /** Number of the subtask that wrote the file. */
  int writer() {
    return Integer.parseInt(token.split("/", -1)[3]);
  }
}
