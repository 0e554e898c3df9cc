package io.weir.jobs.sink;

import io.weir.jobs.metrics.Metric;
import java.io.DataInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.ConnectException;
import java.net.http.HttpConnectTimeoutException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.zip.CRC32C;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.core.fs.FSDataInputStream;
import org.apache.flink.core.fs.FileStatus;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.runtime.execution.SuppressRestartsException;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Stores every row in ClickHouse exactly once.
 *
 * <p>Blocks go into files on the checkpoint storage, one for each table and partition. A checkpoint
 * closes them and keeps their list ({@link PendingFile}) as state; once it is complete they are
 * inserted, in order, each under its own deduplication token, by a thread of its own, so that
 * neither the stream nor a checkpoint waits for ClickHouse. After a failure the list comes back
 * with the state and is inserted again under the same tokens: ClickHouse drops what it has.
 *
 * <p>A token holds an id minted at every start of this operator: rows that are computed anew, after
 * whatever state the job went back to, have new tokens, and a token never stands for other rows.
 *
 * <p>A file is deleted when a later checkpoint that no longer lists it is complete: a state that
 * may be restored never lists a file that is gone.
 *
 * <p>Back-pressure: past {@code maxPending} octets the operator holds its input, but only while it
 * waits for ClickHouse and for nothing else, since a checkpoint may need the input to go on.
 * Meanwhile it serves its mailbox.
 */
public final class ClickHouseSinkOperator extends AbstractStreamOperator<Void>
    implements OneInputStreamOperator<NativeBlock, Void> {
  private static final long serialVersionUID = 1;

  private static final String OPERATOR = "store-<table>";
  private static final Metric STORED =
      Metric.counter("stored_rows", OPERATOR, "Rows that ClickHouse acknowledged");
  private static final Metric INSERTS =
      Metric.counter("inserts", OPERATOR, "Blocks that ClickHouse acknowledged");
  private static final Metric RETRIES =
      Metric.counter("insert_retries", OPERATOR, "Inserts tried again");
  private static final Metric GONE =
      Metric.counter(
          "files_gone", OPERATOR, "Blocks of an old state whose file was gone; taken as stored");
  private static final Metric PENDING_BYTES =
      Metric.gauge("pending_bytes", OPERATOR, "Octets of rows on their way, compressed");
  private static final Metric PENDING_FILES =
      Metric.gauge("pending_files", OPERATOR, "Blocks waiting for ClickHouse");
  public static final List<Metric> METRICS =
      List.of(STORED, INSERTS, RETRIES, GONE, PENDING_BYTES, PENDING_FILES);
  private static final Logger LOG = LoggerFactory.getLogger(ClickHouseSinkOperator.class);

  /** A file with this many rows or octets is full. */
  static final long FILE_ROWS = 500_000;

  static final long FILE_BYTES = 32L << 20;

  /** Files open at a time: rows may be of thousands of partitions. */
  static final int MAX_OPEN = 64;

  /**
   * For how long one process may repeat one insert: others go on meanwhile, and the table remembers
   * the last 10,000 blocks (non_replicated_deduplication_window), which a few subtasks with a file
   * every three seconds fill in hours.
   */
  private static final Duration MAX_RETRY_IN_ONE_RUN = Duration.ofHours(2);

  private static final Duration ORPHAN_AGE = Duration.ofMinutes(10);
  private static final long FIRST_BACKOFF_MS = 200;
  private static final long LAST_BACKOFF_MS = 10_000;
  private static final long WARN_EVERY_MS = 60_000;

  private final ClickHouseSink.Config settings;
  private final transient ClickHouse clickhouse;
  private final transient MailboxExecutor mailbox;
  private final String run = UUID.randomUUID().toString().substring(0, 18);

  private transient Path directory;
  private transient FileSystem files;
  private transient ListState<PendingFile> state;
  private transient int subtask;

  /** Files being written, by table and partition. */
  private transient Map<String, BlockFileWriter> open;

  /** Checkpoint that is next, for tokens; and the files it has so far. */
  private transient long checkpoint;

  private transient int fileNumber;
  private transient List<PendingFile> closed;

  /** Files by the checkpoint that vouches for them, until it is complete. */
  private transient TreeMap<Long, List<PendingFile>> uncommitted;

  /** Files handed to the uploader and not acknowledged, in order. */
  private transient ArrayDeque<PendingFile> committing;

  /** Acknowledged, and still listed in the newest checkpoint. */
  private transient List<PendingFile> acknowledged;

  /** Acknowledged before that checkpoint was taken. */
  private transient TreeMap<Long, List<PendingFile>> deletable;

  private transient long pendingBytes;
  private transient BlockingQueue<PendingFile> uploads;
  private transient Thread uploader;
  private transient volatile boolean stopping;
  private transient boolean finished;

  /** Tokens that came back with the state: an earlier run may have inserted them. */
  private transient Set<String> restoredTokens;

  private transient Counter stored;
  private transient Counter inserts;
  private transient Counter retries;
  private transient Counter gone;

  ClickHouseSinkOperator(
      StreamOperatorParameters<Void> parameters,
      ClickHouseSink.Config settings,
      ClickHouse clickhouse) {
    super(parameters);
    this.settings = settings;
    this.clickhouse = clickhouse;
    this.mailbox = parameters.getMailboxExecutor();
  }

  @Override
  public void initializeState(StateInitializationContext context) throws Exception {
    super.initializeState(context);
    open = new HashMap<>();
    closed = new ArrayList<>();
    uncommitted = new TreeMap<>();
    committing = new ArrayDeque<>();
    acknowledged = new ArrayList<>();
    deletable = new TreeMap<>();
    uploads = new LinkedBlockingQueue<>();
    restoredTokens = new HashSet<>();
    subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
    directory = new Path(settings.directory());
    files = directory.getFileSystem();
    files.mkdirs(directory);
    checkpoint = context.getRestoredCheckpointId().orElse(0) + 1;
    state =
        context
            .getOperatorStateStore()
            .getUnionListState(
                new ListStateDescriptor<>("pending-files", PendingFile.TYPE.serializer()));
    registerMetrics();
    if (context.isRestored()) {
      int parallelism = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
      // Every subtask is given every file, each in an order of its own: who wrote a file commits
      // it, also where only a
      // part of the job starts again, and with another parallelism who stands in for the writer.
      Set<String> vouchedFor = new HashSet<>();
      for (PendingFile file : state.get()) {
        boolean isNew = vouchedFor.add(new Path(file.path()).getName());
        if (isNew && file.writer() % parallelism == subtask) {
          restoredTokens.add(file.token());
          pendingBytes += file.bytes();
          commit(file);
        }
      }
      removeOrphans(vouchedFor);
    } else {
      removeOrphans(Set.of());
    }
  }

  @Override
  public void open() throws Exception {
    super.open();
    uploader =
        new Thread(this::upload, "clickhouse-" + getRuntimeContext().getTaskInfo().getTaskName());
    uploader.setDaemon(true);
    uploader.setContextClassLoader(getUserCodeClassloader());
    uploader.start();
  }

  private void registerMetrics() {
    MetricGroup group = getMetricGroup();
    stored = STORED.register(group);
    inserts = INSERTS.register(group);
    retries = RETRIES.register(group);
    gone = GONE.register(group);
    PENDING_BYTES.register(group, () -> pendingBytes);
    PENDING_FILES.register(group, () -> committing.size());
  }

  @Override
  public void processElement(StreamRecord<NativeBlock> element) throws Exception {
    NativeBlock block = element.getValue();
    String name = block.table().sqlName();
    String key = name + '-' + block.partition();
    BlockFileWriter writer = open.get(key);
    if (writer == null) {
      if (open.size() >= MAX_OPEN) {
        closeAll();
      }
      int number = fileNumber++;
      String token = String.join("/", run, name, "" + checkpoint, "" + subtask, "" + number);
      Path path = new Path(directory, token.replace('/', '-') + ".native.zst");
      writer = new BlockFileWriter(files, path, token);
      open.put(key, writer);
    }
    long before = writer.bytes();
    writer.write(block);
    pendingBytes += writer.bytes() - before;
    if (writer.rows() >= FILE_ROWS || writer.bytes() >= FILE_BYTES) {
      open.remove(key);
      close(writer);
    }
    while (pendingBytes > settings.maxPending() && !committing.isEmpty()) {
      mailbox.yield();
    }
  }

  private void closeAll() throws IOException {
    for (BlockFileWriter writer : open.values()) {
      close(writer);
    }
    open.clear();
  }

  private void close(BlockFileWriter writer) throws IOException {
    long before = writer.bytes();
    PendingFile file = writer.close(System.currentTimeMillis());
    pendingBytes += file.bytes() - before;
    closed.add(file);
  }

  @Override
  public void snapshotState(StateSnapshotContext context) throws Exception {
    super.snapshotState(context);
    closeAll();
    long id = context.getCheckpointId();
    if (!closed.isEmpty()) {
      uncommitted.put(id, closed);
      closed = new ArrayList<>();
    }
    checkpoint = id + 1;
    fileNumber = 0;
    List<PendingFile> all = new ArrayList<>(committing);
    uncommitted.values().forEach(all::addAll);
    state.update(all);
    if (!acknowledged.isEmpty()) {
      deletable.put(id, acknowledged);
      acknowledged = new ArrayList<>();
    }
  }

  @Override
  public void notifyCheckpointComplete(long id) throws Exception {
    super.notifyCheckpointComplete(id);
    while (!uncommitted.isEmpty() && uncommitted.firstKey() <= id) {
      uncommitted.pollFirstEntry().getValue().forEach(this::commit);
    }
    while (!deletable.isEmpty() && deletable.firstKey() <= id) {
      for (PendingFile file : deletable.pollFirstEntry().getValue()) {
        files.delete(new Path(file.path()), false);
      }
    }
    while (finished && !committing.isEmpty()) {
      mailbox
          .yield(); // the last checkpoint of a stream that has ended: there is nothing left to hold
      // up
    }
  }

  @Override
  public void finish() throws Exception {
    super.finish();
    finished = true;
  }

  @Override
  public void close() throws Exception {
    stopping = true;
    if (uploader != null) {
      uploader.interrupt();
      uploader.join(5_000);
    }
    if (open != null) {
      for (BlockFileWriter writer : open.values()) {
        writer.abandon();
      }
    }
    super.close();
  }

  private void commit(PendingFile file) {
    committing.add(file);
    uploads.add(file);
  }

  private void acknowledge(PendingFile file, boolean inserted) {
    committing.remove(file);
    pendingBytes -= file.bytes();
    acknowledged.add(file);
    inserts.inc();
    if (inserted) {
      stored.inc(file.rows());
    } else {
      gone.inc();
    }
  }

  // ---- in the uploader's thread ----

  private void upload() {
    try {
      while (!stopping) {
        PendingFile file = uploads.take();
        boolean inserted = insert(file);
        mailbox.execute(() -> acknowledge(file, inserted), "acknowledge " + file.token());
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } catch (Throwable e) {
      if (!stopping) {
        mailbox.execute(
            () -> {
              throw e instanceof Exception exception ? exception : new IOException(e);
            },
            "insert failed");
      }
    }
  }

  private boolean insert(PendingFile file) throws Exception {
    byte[] body;
    try {
      body = read(file);
    } catch (FileNotFoundException e) {
      // Only a state older than the newest complete checkpoint can list it, or someone deleted it.
      LOG.error(
          "block {} with {} rows is gone from {}: taken as stored when a later checkpoint was complete; the ledger"
              + " shows it where it was not",
          file.token(),
          file.rows(),
          file.path());
      return false;
    }
    String table = file.table();
    boolean uncertain = restoredTokens.contains(file.token());
    if (uncertain) {
      LOG.info("recommit of token {} ({} rows) from restored state", file.token(), file.rows());
      failWhereForgotten(file, file.written(), settings.retryFor());
    }
    long first = 0;
    long warned = 0;
    long backoff = FIRST_BACKOFF_MS;
    for (int attempt = 1; ; attempt++) {
      if (attempt > 1) {
        LOG.info("retry {} of token {} ({} rows)", attempt - 1, file.token(), file.rows());
      }
      try {
        clickhouse.insert(table, file.token(), body, file.rows());
        if (attempt > 1) {
          LOG.info("token {} stored after {} attempts", file.token(), attempt);
        }
        return true;
      } catch (ClickHouse.PermanentException e) {
        throw new SuppressRestartsException(e);
      } catch (IOException e) {
        long now = System.currentTimeMillis();
        if (!(e instanceof ConnectException || e instanceof HttpConnectTimeoutException)) {
          first = first == 0 ? now : first; // it may have been applied
        }
        if (first != 0) {
          failWhereForgotten(file, first, MAX_RETRY_IN_ONE_RUN);
        }
        retries.inc();
        if (now - warned >= WARN_EVERY_MS) {
          warned = now;
          LOG.warn("block {} not stored yet, trying on: {}", file.token(), e.toString());
        }
        Thread.sleep(backoff);
        backoff = Math.min(LAST_BACKOFF_MS, backoff * 2);
      }
    }
  }

  private static void failWhereForgotten(PendingFile file, long since, Duration limit) {
    long age = System.currentTimeMillis() - since;
    if (age > limit.toMillis()) {
      throw new SuppressRestartsException(
          new IOException(
              String.format(
                  "block %s (%d rows, %s) may have been inserted %d s ago, and ClickHouse is only trusted to remember"
                      + " its token for %d s: it could be stored twice. Compare the table with the ledger, then start"
                      + " with a longer --retry-for to insert it, or with --resume none",
                  file.token(), file.rows(), file.path(), age / 1000, limit.toSeconds())));
    }
  }

  private byte[] read(PendingFile file) throws IOException {
    byte[] body = new byte[Math.toIntExact(file.bytes())];
    try (FSDataInputStream in = files.open(new Path(file.path()))) {
      new DataInputStream(in).readFully(body);
    }
    CRC32C checksum = new CRC32C();
    checksum.update(body, 0, body.length);
    if (checksum.getValue() != file.checksum()) {
      throw new SuppressRestartsException(
          new IOException("the checksum of " + file.path() + " is wrong: the storage changed it"));
    }
    return body;
  }

  /** Removes what dead runs left behind: files that no checkpoint came to vouch for. */
  private void removeOrphans(Set<String> vouchedFor) throws IOException {
    FileStatus[] found = files.listStatus(directory);
    // Not when a running job starts again after a failure: others' files may be newer than the
    // state.
    if (subtask != 0 || getRuntimeContext().getTaskInfo().getAttemptNumber() > 0 || found == null) {
      return;
    }
    long before = System.currentTimeMillis() - ORPHAN_AGE.toMillis();
    for (FileStatus status : found) {
      boolean known = vouchedFor.contains(status.getPath().getName());
      if (!known && !status.isDir() && status.getModificationTime() < before) {
        files.delete(status.getPath(), false);
      }
    }
  }
}
