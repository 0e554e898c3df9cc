package io.weir.jobs.sink;

import io.weir.jobs.metrics.Metric;
import io.weir.jobs.serde.FieldSerializer;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
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

/**
 * Stores every row in ClickHouse exactly once.
 *
 * <p>Blocks go into files on the checkpoint storage, one for each table and partition. A checkpoint
 * closes them and keeps their list ({@link PendingFile}) as state; once it is complete they are
 * inserted, each under its own deduplication token, in the background ({@link Uploads}), so that
 * neither the stream nor a checkpoint waits for ClickHouse. After a failure the operator restores
 * the list from the state and inserts the files again under the same tokens: ClickHouse drops the
 * blocks that it already has.
 *
 * <p>A token contains an id that is new at every start of this operator: rows that are computed
 * again, from whatever state the job restarts, have new tokens, and a token never stands for
 * different rows.
 *
 * <p>A file is deleted when a later checkpoint that no longer lists it is complete. The operator
 * refuses to start from a state older than the stored rows ({@link InsertMarks}), because their
 * rows would be stored again under other tokens, and from a state that lists a missing file.
 *
 * <p>Back-pressure: beyond {@code maxPending} octets, or beyond the subtask's share of a quarter of
 * the tokens that ClickHouse remembers, the operator pauses its input, but only while it waits for
 * ClickHouse alone, because a checkpoint may need the input to continue. Meanwhile it keeps
 * processing its mailbox.
 *
 * <p>While checkpoints fail, files wait for one to complete. Beyond the same bounds the task fails
 * ({@link #failWhereNothingCompletes}): it restarts from the newest checkpoint, removes the files,
 * and Kafka still has their records.
 */
public final class ClickHouseSinkOperator extends AbstractStreamOperator<Void>
    implements OneInputStreamOperator<NativeBlock, Void> {
  private static final long serialVersionUID = 1;

  /** Name of the state that lists files. */
  static final String PENDING = "pending-files";

  private static final String OPERATOR = "store-<table>";
  private static final Metric STORED =
      Metric.counter("stored_rows", OPERATOR, "Rows that ClickHouse acknowledged");
  private static final Metric INSERTS =
      Metric.counter("inserts", OPERATOR, "Blocks that ClickHouse acknowledged");
  static final Metric RETRIES =
      Metric.counter("insert_retries", OPERATOR, "Inserts that were retried");
  private static final Metric PENDING_BYTES =
      Metric.gauge("pending_bytes", OPERATOR, "Octets of pending rows, compressed");
  private static final Metric PENDING_FILES =
      Metric.gauge("pending_files", OPERATOR, "Blocks waiting for ClickHouse");
  public static final List<Metric> METRICS =
      List.of(STORED, INSERTS, RETRIES, PENDING_BYTES, PENDING_FILES);

  /** A file with this many rows or octets is full. */
  static final long FILE_ROWS = 500_000;

  static final long FILE_BYTES = 32L << 20;

  /** Maximum number of open files, because rows may belong to thousands of partitions. */
  static final int MAX_OPEN = 64;

  /** Checkpoints that may fail in sequence, or take their time, before files count as too many. */
  static final int MAX_UNFINISHED = 3;

  private static final Duration ORPHAN_AGE = Duration.ofMinutes(10);

  /** The blocks that wait may be one in this many of those that ClickHouse remembers. */
  private static final int PENDING_SHARE = 4;

  private final ClickHouseSink.Config settings;
  private final transient BlockStore store;
  private final transient Background background;
  private final transient MailboxExecutor mailbox;
  private final String run = UUID.randomUUID().toString().substring(0, 18);

  private transient Path directory;
  private transient FileSystem files;
  private transient ListState<PendingFile> state;
  private transient ListState<SinkRun> runState;
  private transient int subtask;
  private transient int maxFiles;

  /** Id of the job's first run, which began without state. */
  private transient String job;

  private transient InsertMarks marks;

  /** Files being written, by table and partition. */
  private transient Map<String, BlockFileWriter> open;

  /** The next checkpoint, for tokens; and its files so far. */
  private transient long checkpoint;

  private transient int fileNumber;
  private transient List<PendingFile> closed;

  /** Files by the checkpoint that lists them, until it is complete. */
  private transient TreeMap<Long, List<PendingFile>> uncommitted;

  /** Checkpoints that began or failed since one was complete. */
  private transient int unfinished;

  /** Files handed to the uploads and not acknowledged, by token, in order. */
  private transient Map<String, PendingFile> committing;

  /** Files acknowledged, and still listed in the newest checkpoint. */
  private transient List<PendingFile> acknowledged;

  /** Files acknowledged before that checkpoint was taken. */
  private transient TreeMap<Long, List<PendingFile>> deletable;

  private transient long pendingBytes;
  private transient Uploads uploads;
  private transient boolean finished;
  private transient Counter stored;
  private transient Counter inserts;

  ClickHouseSinkOperator(
      StreamOperatorParameters<Void> parameters,
      ClickHouseSink.Config settings,
      BlockStore store,
      Background background) {
    super(parameters);
    this.settings = settings;
    this.store = store;
    this.background = background;
    this.mailbox = parameters.getMailboxExecutor();
  }

  /** State: the files that ClickHouse has not acknowledged. */
  static ListStateDescriptor<PendingFile> pendingFiles() {
    return new ListStateDescriptor<>(PENDING, new FieldSerializer<>(PendingFile.class));
  }

  /** State: the job and the checkpoint that it belongs to. */
  static ListStateDescriptor<SinkRun> runs() {
    return new ListStateDescriptor<>("run", new FieldSerializer<>(SinkRun.class));
  }

  @Override
  public void initializeState(StateInitializationContext context) throws Exception {
    super.initializeState(context);
    open = new HashMap<>();
    closed = new ArrayList<>();
    uncommitted = new TreeMap<>();
    committing = new LinkedHashMap<>();
    acknowledged = new ArrayList<>();
    deletable = new TreeMap<>();
    subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
    int parallelism = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
    maxFiles = Math.max(1, settings.remembered() / PENDING_SHARE / parallelism);
    directory = new Path(settings.directory());
    files = directory.getFileSystem();
    files.mkdirs(directory);
    checkpoint = context.getRestoredCheckpointId().orElse(0) + 1;
    state = context.getOperatorStateStore().getUnionListState(pendingFiles());
    runState = context.getOperatorStateStore().getUnionListState(runs());
    registerMetrics();
    List<PendingFile> restored = new ArrayList<>();
    if (context.isRestored()) {
      state.get().forEach(restored::add);
    }
    SinkRun before = null;
    for (SinkRun run : context.isRestored() ? runState.get() : List.<SinkRun>of()) {
      before = run;
    }
    job = before == null ? "" + getRuntimeContext().getJobInfo().getJobId() : before.job();
    marks = new InsertMarks(files, directory, job, subtask);
    uploads =
        new Uploads(settings, store, background, marks, files, new Reports(), getMetricGroup());
    if (before == null) {
      marks.clear();
    } else {
      refuseOlder(before.checkpoint());
      restore(before.checkpoint(), restored, parallelism);
    }
    Set<String> listed = new HashSet<>();
    restored.forEach(file -> listed.add(new Path(file.path()).getName()));
    // Without state, another job may be using the folder by mistake: its files are young.
    long until = before == null ? background.now() - ORPHAN_AGE.toMillis() : Long.MAX_VALUE;
    new Orphans(files, directory)
        .remove(
            until, name -> isOwn(PendingFile.writer(name), parallelism) && !listed.contains(name));
  }

  private void refuseOlder(long restored) throws IOException {
    long newest = marks.newestCheckpoint();
    if (newest > restored) {
      throw new SuppressRestartsException(
          new IOException(
              String.format(
                  "the state of checkpoint %d is older than rows that are stored, those of checkpoint %d: from this"
                      + " state they would be stored twice. Start from checkpoint %d or a later one; or remove these"
                      + " rows from the tables, and then the folder %s",
                  restored, newest, newest, marks.folder())));
    }
  }

  /**
   * Every subtask receives every file, each subtask in a different order. The subtask that wrote a
   * file commits it, even if only a part of the job restarts; with another parallelism, the subtask
   * that stands in for the writer commits it.
   */
  private void restore(long restored, List<PendingFile> all, int parallelism) throws IOException {
    Map<String, Integer> ofTable = new HashMap<>();
    Map<String, PendingFile> own = new LinkedHashMap<>();
    Set<String> known = new HashSet<>();
    for (PendingFile file : all) {
      if (known.add(file.token())) {
        ofTable.merge(file.table(), 1, Integer::sum);
        if (isOwn(file.writer(), parallelism)) {
          own.put(file.token(), file);
        }
      }
    }
    marks.beginAgain(restored, own.values());
    for (PendingFile file : own.values()) {
      // Any of these blocks may have been inserted since the checkpoint.
      long begun = Math.max(0, marks.blocks(file.table()) - ofTable.get(file.table()));
      pendingBytes += file.bytes();
      commit(file.before() >= 0 ? file : file.triedAt(begun), true);
    }
  }

  /** Whether this subtask wrote the file, or stands in for its writer. */
  private boolean isOwn(int writer, int parallelism) {
    return writer % parallelism == subtask;
  }

  @Override
  public void open() throws Exception {
    super.open();
    background.begin(
        "clickhouse-" + getRuntimeContext().getTaskInfo().getTaskName(), uploads::step);
  }

  private void registerMetrics() {
    MetricGroup group = getMetricGroup();
    stored = STORED.register(group);
    inserts = INSERTS.register(group);
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
      Path path = new Path(directory, PendingFile.name(token));
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
    while (holdsInput()) {
      mailbox.yield();
    }
    failWhereNothingCompletes();
  }

  private void failWhereNothingCompletes() throws IOException {
    if (unfinished <= MAX_UNFINISHED) {
      return;
    }
    int waiting = uncommitted.values().stream().mapToInt(List::size).sum();
    if (pendingBytes > settings.maxPending() || waiting > maxFiles) {
      throw new UnfinishedException(
          String.format(
              "no checkpoint is complete after %d of them, and %d files with %d octets of rows wait for one, more than"
                  + " %d or %d octets (--max-pending, of this subtask). The log says why checkpoints fail. The job"
                  + " restarts from the newest complete one, and reads the records again from Kafka",
              unfinished, waiting, pendingBytes, maxFiles, settings.maxPending()));
    }
  }

  /** Too much waits for a checkpoint. */
  static final class UnfinishedException extends IOException {
    private static final long serialVersionUID = 1;

    UnfinishedException(String message) {
      super(message);
    }
  }

  /** Whether too much waits for ClickHouse to continue. */
  boolean holdsInput() {
    return !committing.isEmpty()
        && (pendingBytes > settings.maxPending() || committing.size() > maxFiles);
  }

  /** Octets of rows in transit. */
  long pendingBytes() {
    return pendingBytes;
  }

  private void closeAll() throws IOException {
    for (BlockFileWriter writer : open.values()) {
      close(writer);
    }
    open.clear();
  }

  private void close(BlockFileWriter writer) throws IOException {
    long before = writer.bytes();
    PendingFile file = writer.close(background.now());
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
    unfinished++;
    List<PendingFile> all = new ArrayList<>(committing.values());
    uncommitted.values().forEach(all::addAll);
    state.update(all);
    runState.update(List.of(new SinkRun(job, id)));
    if (!acknowledged.isEmpty()) {
      deletable.put(id, acknowledged);
      acknowledged = new ArrayList<>();
    }
  }

  @Override
  public void notifyCheckpointAborted(long id) throws Exception {
    super.notifyCheckpointAborted(id);
    if (id >= checkpoint) { // its barrier has not come
      unfinished++;
    }
  }

  @Override
  public void notifyCheckpointComplete(long id) throws Exception {
    super.notifyCheckpointComplete(id);
    unfinished = 0;
    List<PendingFile> complete = new ArrayList<>();
    while (!uncommitted.isEmpty() && uncommitted.firstKey() <= id) {
      complete.addAll(uncommitted.pollFirstEntry().getValue());
    }
    if (!complete.isEmpty() || (!deletable.isEmpty() && deletable.firstKey() <= id)) {
      marks.begin(id, complete);
    }
    complete.forEach(file -> commit(file, false));
    while (!deletable.isEmpty() && deletable.firstKey() <= id) {
      for (PendingFile file : deletable.pollFirstEntry().getValue()) {
        files.delete(new Path(file.path()), false);
      }
    }
    while (finished && !committing.isEmpty()) {
      // This is the last checkpoint of a stream that has ended, so waiting delays nothing.
      mailbox.yield();
    }
  }

  @Override
  public void finish() throws Exception {
    super.finish();
    finished = true;
  }

  @Override
  public void close() throws Exception {
    background.end();
    if (open != null) {
      for (BlockFileWriter writer : open.values()) {
        writer.abandon();
      }
    }
    super.close();
  }

  private void commit(PendingFile file, boolean restored) {
    committing.put(file.token(), file);
    uploads.add(file, restored);
  }

  /** Results of the uploads, processed by the stream's thread. */
  private final class Reports implements Uploads.Reports {
    @Override
    public void stored(PendingFile file) {
      mailbox.execute(() -> acknowledge(file), "acknowledge " + file.token());
    }

    @Override
    public void uncertain(PendingFile file) {
      mailbox.execute(() -> committing.replace(file.token(), file), "uncertain " + file.token());
    }

    @Override
    public void failed(Exception cause) {
      mailbox.execute(
          () -> {
            throw cause;
          },
          "insert failed");
    }
  }

  private void acknowledge(PendingFile file) {
    committing.remove(file.token());
    pendingBytes -= file.bytes();
    acknowledged.add(file);
    inserts.inc();
    stored.inc(file.rows());
  }
}
