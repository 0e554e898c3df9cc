package io.weir.jobs.sink;

import java.io.BufferedReader;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.core.fs.FileStatus;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;

/**
 * The progress of a sink's subtasks, in small files beside the blocks, which survive the process.
 * Before a subtask inserts the blocks of a checkpoint it writes the checkpoint's number, and how
 * many blocks of each table it has begun to insert by then. The files of all subtasks together show
 * whether a state is older than the stored rows, and how many tokens ClickHouse has received since
 * a given one.
 *
 * <p>A truncated file is ignored, because no insert has followed it.
 */
final class InsertMarks {
  private static final String FOLDER = "inserted";
  private static final String WHOLE = "whole";

  /** A writer puts a new file in place before it removes the last one. */
  private static final int MAX_READS = 10;

  private record Mark(long checkpoint, Path file, Map<String, Long> blocks) {}

  private final FileSystem files;
  private final Path folder;
  private final String job;
  private final int subtask;
  private final Map<String, Long> own = new HashMap<>();
  private Mark last;

  /**
   * Creates the marks of a subtask.
   *
   * @param job id of the job's first run, which its state keeps
   */
  InsertMarks(FileSystem files, Path directory, String job, int subtask) throws IOException {
    this.files = files;
    this.job = job;
    this.subtask = subtask;
    folder = new Path(directory, FOLDER);
    files.mkdirs(folder);
    last = newest().get(subtask);
    if (last != null) {
      own.putAll(last.blocks);
    }
  }

  /** Where the files are. */
  Path folder() {
    return folder;
  }

  /** Removes the marks of an earlier job with the same id, which also began without state. */
  void clear() throws IOException {
    for (Mark mark : newest().values()) {
      files.delete(mark.file, false);
    }
    own.clear();
    last = null;
  }

  /** The newest checkpoint with rows that any subtask may have stored; 0 for none. */
  long newestCheckpoint() throws IOException {
    return newest().values().stream().mapToLong(Mark::checkpoint).max().orElse(0);
  }

  /** Blocks of a table that all subtasks have begun to insert. */
  long blocks(String table) throws IOException {
    return newest().values().stream().mapToLong(mark -> mark.blocks.getOrDefault(table, 0L)).sum();
  }

  /** Whether the insert of the block may have begun. */
  private static boolean isBegun(PendingFile block, Map<Integer, Mark> newest) {
    Mark of = newest.get(block.writer());
    return of != null && of.checkpoint >= block.checkpoint();
  }

  /** Call this with the blocks of a subtask that were restored from a checkpoint's state. */
  void beginAgain(long checkpoint, Collection<PendingFile> blocks) throws IOException {
    Map<Integer, Mark> newest = newest();
    begin(checkpoint, blocks.stream().filter(block -> !isBegun(block, newest)).toList());
  }

  /** Call this before inserting the blocks of a complete checkpoint, or deleting any. */
  void begin(long checkpoint, Collection<PendingFile> blocks) throws IOException {
    if (last != null && last.checkpoint >= checkpoint) {
      return; // a start from the same state
    }
    for (PendingFile block : blocks) {
      own.merge(block.table(), 1L, Long::sum);
    }
    Path file = new Path(folder, job + "-" + subtask + "-" + checkpoint);
    StringBuilder text = new StringBuilder();
    own.forEach((table, count) -> text.append(table).append(' ').append(count).append('\n'));
    try (OutputStream out = files.create(file, FileSystem.WriteMode.OVERWRITE)) {
      out.write((text + WHOLE + "\n").getBytes(StandardCharsets.UTF_8));
    }
    if (last != null) {
      files.delete(last.file, false);
    }
    last = new Mark(checkpoint, file, Map.of());
  }

  /** Of each subtask. */
  private Map<Integer, Mark> newest() throws IOException {
    for (int read = 1; ; read++) {
      try {
        return readNewest();
      } catch (FileNotFoundException e) {
        if (read == MAX_READS) {
          throw e;
        }
      }
    }
  }

  private Map<Integer, Mark> readNewest() throws IOException {
    Map<Integer, Mark> newest = new TreeMap<>();
    FileStatus[] found = files.listStatus(folder);
    for (FileStatus status : found == null ? new FileStatus[0] : found) {
      String[] name = status.getPath().getName().split("-");
      if (name.length != 3 || !name[0].equals(job)) {
        continue;
      }
      int of = Integer.parseInt(name[1]);
      Mark mark = read(Long.parseLong(name[2]), status.getPath());
      if (mark != null) {
        newest.merge(of, mark, (a, b) -> a.checkpoint > b.checkpoint ? a : b);
      }
    }
    return newest;
  }

  /** Null for a truncated file. */
  private Mark read(long checkpoint, Path file) throws IOException {
    Map<String, Long> blocks = new HashMap<>();
    try (BufferedReader in =
        new BufferedReader(new InputStreamReader(files.open(file), StandardCharsets.UTF_8))) {
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        if (line.equals(WHOLE)) {
          return new Mark(checkpoint, file, blocks);
        }
        int space = line.indexOf(' ');
        if (space > 0) {
          blocks.put(line.substring(0, space), Long.parseLong(line.substring(space + 1)));
        }
      }
    } catch (NumberFormatException e) {
      return null;
    }
    return null;
  }
}
