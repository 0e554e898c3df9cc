package io.weir.jobs.sink;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

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

  /** Name of the file with the rows of a token. */
  static String name(String token) {
    return token.replace('/', '-') + SUFFIX;
  }

  /** Number of the subtask that wrote the file of this name; -1 if it is no such file. */
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
