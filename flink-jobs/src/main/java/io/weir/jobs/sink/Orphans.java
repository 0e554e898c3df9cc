package io.weir.jobs.sink;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.function.Predicate;
import org.apache.flink.core.fs.FileStatus;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;

/**
 * Removes files that runs of the sink left behind before a checkpoint that lists them was complete.
 */
record Orphans(FileSystem files, Path directory) {
  /** Other subtasks remove theirs while this one reads the folder. */
  private static final int MAX_READS = 10;

  /**
   * Removes the files whose name {@code isOrphan} accepts and that were last written until then, ms
   * from 1970.
   */
  void remove(long until, Predicate<String> isOrphan) throws IOException {
    for (FileStatus status : found()) {
      if (!status.isDir()
          && status.getModificationTime() <= until
          && isOrphan.test(status.getPath().getName())) {
        files.delete(status.getPath(), false);
      }
    }
  }

  private FileStatus[] found() throws IOException {
    for (int read = 1; ; read++) {
      try {
        FileStatus[] found = files.listStatus(directory);
        return found == null ? new FileStatus[0] : found;
      } catch (FileNotFoundException e) {
        if (read == MAX_READS) {
          throw e;
        }
      }
    }
  }
}
