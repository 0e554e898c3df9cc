package io.weir.jobs.sink;

import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.OperatorStateStore;
import org.apache.flink.core.fs.FileStatus;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;

/**
 * Blocks that the state of a stopped job lists: ClickHouse may or may not have them. {@link
 * #insert} sends them as a start from this state would, so that the tables hold exactly what the
 * state stands for.
 */
public final class LeftBlocks {
  /** Name of the state of a sink that lists its blocks. */
  public static final String STATE = ClickHouseSinkOperator.PENDING;

  private static final long FIRST_BACKOFF_MS = 100;
  private static final long LAST_BACKOFF_MS = 2_000;

  private final BlockStore store;
  private final long retryForMs;
  private final long patienceMs;

  /**
   * Creates it.
   *
   * @param retryForMs age at which ClickHouse may have forgotten a block
   * @param patienceMs how long to retry a block that ClickHouse does not accept
   */
  public LeftBlocks(BlockStore store, long retryForMs, long patienceMs) {
    this.store = store;
    this.retryForMs = retryForMs;
    this.patienceMs = patienceMs;
  }

  /**
   * Inserts the blocks that a sink's state lists; returns how many these are.
   *
   * @param rows the folder of the folders of all sinks
   * @throws IOException if the tables hold more than the state, or a block cannot be inserted
   */
  public int insert(OperatorStateStore state, Path rows) throws Exception {
    for (SinkRun run : state.getUnionListState(ClickHouseSinkOperator.runs()).get()) {
      refuseOlder(rows, run);
      break;
    }
    ListStateDescriptor<PendingFile> pending = ClickHouseSinkOperator.pendingFiles();
    Map<String, PendingFile> files = new LinkedHashMap<>();
    state.getUnionListState(pending).get().forEach(file -> files.put(file.token(), file));
    for (PendingFile file : files.values()) {
      insert(file);
    }
    return files.size();
  }

  private static void refuseOlder(Path rows, SinkRun run) throws IOException {
    FileSystem files = rows.getFileSystem();
    FileStatus[] folders = files.exists(rows) ? files.listStatus(rows) : new FileStatus[0];
    for (FileStatus folder : folders) {
      long newest = new InsertMarks(files, folder.getPath(), run.job(), 0).newestCheckpoint();
      if (newest > run.checkpoint()) {
        throw new IOException(
            "the newest state is that of checkpoint %d, and the tables hold rows of checkpoint %d"
                .formatted(run.checkpoint(), newest));
      }
    }
  }

  private void insert(PendingFile file) throws IOException, InterruptedException {
    long begun = System.currentTimeMillis();
    if (begun - file.written() > retryForMs) {
      throw new IOException(
          "block %s may have been inserted %d s ago, and ClickHouse may have forgotten it"
              .formatted(file.token(), (begun - file.written()) / 1000));
    }
    byte[] body = file.read(new Path(file.path()).getFileSystem());
    for (long backoff = FIRST_BACKOFF_MS; ; backoff = Math.min(LAST_BACKOFF_MS, 2 * backoff)) {
      try {
        store.insert(file.table(), file.token(), body, file.rows());
        return;
      } catch (ClickHouse.PermanentException e) {
        throw e;
      } catch (IOException e) {
        if (System.currentTimeMillis() - begun > patienceMs) {
          throw e;
        }
        Thread.sleep(backoff);
      }
    }
  }
}
