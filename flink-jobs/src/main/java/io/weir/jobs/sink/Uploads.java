package io.weir.jobs.sink;

import java.io.IOException;
import java.net.ConnectException;
import java.net.http.HttpConnectTimeoutException;
import java.util.Comparator;
import java.util.PriorityQueue;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.runtime.execution.SuppressRestartsException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Inserts a subtask's files in order; a refused file waits and is retried, while the others
 * continue. Runs in the {@link Background}.
 *
 * <p>It retries a block that may have been inserted only while ClickHouse remembers its token;
 * after that the job stops.
 */
final class Uploads {
  private static final Logger LOG = LoggerFactory.getLogger(Uploads.class);
  private static final long FIRST_BACKOFF_MS = 200;
  private static final long LAST_BACKOFF_MS = 10_000;
  private static final long WARN_EVERY_MS = 60_000;
  private static final long IDLE_MS = 60_000;

  /** Receives the result for each file. */
  interface Reports {
    void stored(PendingFile file);

    /** An insert may or may not have happened. */
    void uncertain(PendingFile file);

    /** The job must stop. */
    void failed(Exception cause);
  }

  private static final class Upload {
    PendingFile file;
    final long number;
    final boolean restored;
    int attempts;
    long due;
    long warnedAt;

    Upload(PendingFile file, long number, boolean restored) {
      this.file = file;
      this.number = number;
      this.restored = restored;
    }

    /** How long to wait after the last attempt, in ms. */
    long backoff() {
      return Uploads.backoff(attempts);
    }
  }

  private final ClickHouseSink.Config settings;
  private final BlockStore store;
  private final Background background;
  private final InsertMarks marks;
  private final FileSystem files;
  private final Reports reports;
  private final Counter retries;
  private final Queue<Upload> added = new ConcurrentLinkedQueue<>();
  private final PriorityQueue<Upload> waiting =
      new PriorityQueue<>(
          Comparator.<Upload>comparingLong(upload -> upload.due)
              .thenComparingLong(upload -> upload.number));
  private long number;

  /** Consecutive failed attempts, for any files. */
  private int failures;

  private boolean failed;

  Uploads(
      ClickHouseSink.Config settings,
      BlockStore store,
      Background background,
      InsertMarks marks,
      FileSystem files,
      Reports reports,
      MetricGroup metrics) {
    this.settings = settings;
    this.store = store;
    this.background = background;
    this.marks = marks;
    this.files = files;
    this.reports = reports;
    retries = ClickHouseSinkOperator.RETRIES.register(metrics);
  }

  /**
   * Adds a file.
   *
   * @param restored whether an earlier run may have inserted it
   */
  void add(PendingFile file, boolean restored) {
    added.add(new Upload(file, number++, restored));
    background.wake();
  }

  private static long backoff(int attempts) {
    return Math.min(LAST_BACKOFF_MS, FIRST_BACKOFF_MS << Math.min(20, attempts - 1));
  }

  /** Tries one file, if one is due; returns for how many ms there is nothing more to do. */
  long step() throws InterruptedException {
    for (Upload upload = added.poll(); upload != null; upload = added.poll()) {
      waiting.add(upload);
    }
    Upload upload = waiting.peek();
    long now = background.now();
    if (failed) {
      return IDLE_MS;
    }
    if (upload == null || upload.due > now) {
      return upload == null ? IDLE_MS : upload.due - now;
    }
    waiting.poll();
    try {
      if (insert(upload)) {
        failures = 0;
        reports.stored(upload.file);
        return 0;
      }
    } catch (IOException | RuntimeException | Error e) {
      failed = true;
      reports.failed(e instanceof Exception cause ? cause : new IOException(e));
      return IDLE_MS;
    }
    failures++;
    upload.due = background.now() + upload.backoff();
    waiting.add(upload);
    return backoff(failures);
  }

  /** Whether the file is stored; if not, it will be retried. */
  private boolean insert(Upload upload) throws IOException, InterruptedException {
    PendingFile file = upload.file;
    byte[] body = file.read(files);
    upload.attempts++;
    if (file.before() >= 0) {
      failWhereForgotten(file);
    }
    if (upload.attempts > 1) {
      retries.inc();
      LOG.info("retry {} of token {} ({} rows)", upload.attempts - 1, file.token(), file.rows());
    } else if (upload.restored) {
      LOG.info("recommit of token {} ({} rows) from restored state", file.token(), file.rows());
    }
    try {
      store.insert(file.table(), file.token(), body, file.rows());
      if (upload.attempts > 1) {
        LOG.info("token {} stored after {} attempts", file.token(), upload.attempts);
      }
      return true;
    } catch (ClickHouse.PermanentException e) {
      throw new SuppressRestartsException(e);
    } catch (IOException e) {
      if (file.before() < 0
          && !(e instanceof ConnectException || e instanceof HttpConnectTimeoutException)) {
        upload.file = file.triedAt(marks.blocks(file.table()));
        reports.uncertain(upload.file);
      }
      long now = background.now();
      if (now - upload.warnedAt >= WARN_EVERY_MS) {
        upload.warnedAt = now;
        LOG.warn("block {} is not stored yet, retrying: {}", file.token(), e.toString());
      }
      return false;
    }
  }

  /** Fails if ClickHouse may have forgotten the block's token. */
  private void failWhereForgotten(PendingFile file) throws IOException {
    long since = marks.blocks(file.table()) - file.before();
    long age = background.now() - file.written();
    if (since > settings.remembered() || age > settings.retryFor().toMillis()) {
      throw new SuppressRestartsException(
          new IOException(
              String.format(
                  "block %s (%d rows, %s) may have been inserted %d s and %d blocks of its table ago, and ClickHouse is"
                      + " only trusted to remember its token for %d s (--retry-for) and %d blocks: it could be stored twice. Compare"
                      + " the table with the ledger, then start with --resume none",
                  file.token(),
                  file.rows(),
                  file.path(),
                  age / 1000,
                  since,
                  settings.retryFor().toSeconds(),
                  settings.remembered())));
    }
  }
}
