package io.weir.jobs.sink;

import io.weir.jobs.Stage;
import io.weir.jobs.sink.StoreModel.Fate;
import io.weir.jobs.table.Table;
import io.weir.jobs.table.TableRow;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.execution.SuppressRestartsException;
import org.apache.flink.runtime.operators.testutils.MockEnvironment;
import org.apache.flink.streaming.api.operators.AbstractStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.OneInputStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.tasks.mailbox.Mail;
import org.apache.flink.streaming.util.AbstractStreamOperatorTestHarness;
import org.apache.flink.streaming.util.OneInputStreamOperatorTestHarness;
import org.apache.flink.util.function.SupplierWithException;

/**
 * A job that reads numbered rows and stores them, with real operators (blocks of rows, the sink), a
 * model of the store, files in a folder, and a clock that only these lines move. Each line is an
 * event:
 *
 * <pre>
 *   rows N                   the job reads N rows
 *   barrier                  a checkpoint begins: every subtask saves its state
 *   complete [SUBTASK]       the checkpoint is complete; SUBTASK is not notified
 *   insert SUBTASK [FATE]    the subtask's next insert, if one is due, has the fate FATE
 *   refuse SUBTASK           the store refuses the subtask's next block for ever
 *   pass SECONDS
 *   crash SECONDS [PARALLELISM]  the job ends, and starts after SECONDS from the newest checkpoint
 *   back N [PARALLELISM]     likewise, but from the checkpoint N before the newest
 *   lose N                   somebody removes the Nth file
 * </pre>
 */
final class SinkRunModel implements AutoCloseable {
  static final int REMEMBERED = 48;

  /**
   * More than {@link #REMEMBERED}, as with the real tables, because inserts in flight are not
   * counted.
   */
  static final int STORE_REMEMBERS = 60;

  private static final int MAX_PENDING = 20_000;

  /** Lines that write files while as many checkpoints as may be unfinished begin, at the most. */
  private static final int LINES_BETWEEN = 12;

  private static final int MAX_STEPS = 400;
  private static final int MAX_HELPS = 200;
  private static final long SECONDS = 1_767_225_600L;

  /** The operator accepts no more input. */
  private static final class HeldException extends Exception {
    private static final long serialVersionUID = 1;
  }

  private static final class Manual implements Background {
    long now;
    MailboxExecutor mailbox;
    SupplierWithException<Long, Exception> step;

    @Override
    public long now() {
      return now;
    }

    @Override
    public void begin(String name, SupplierWithException<Long, Exception> step) {
      this.step = step;
    }

    @Override
    public void wake() {}

    @Override
    public void end() {}
  }

  private static final class Factory extends AbstractStreamOperatorFactory<Void>
      implements OneInputStreamOperatorFactory<NativeBlock, Void> {
    private static final long serialVersionUID = 1;

    private final transient StoreModel store;
    private final transient Manual background;
    private final String directory;

    Factory(StoreModel store, Manual background, String directory) {
      this.store = store;
      this.background = background;
      this.directory = directory;
    }

    @Override
    @SuppressWarnings({"unchecked", "TypeParameterUnusedInFormals"})
    public <T extends StreamOperator<Void>> T createStreamOperator(
        StreamOperatorParameters<Void> parameters) {
      ClickHouseSink.Config config =
          new ClickHouseSink.Config(
              new ClickHouse.Endpoint("", "", "", () -> ""),
              directory,
              MAX_PENDING,
              Duration.ofDays(7),
              REMEMBERED);
      background.mailbox = parameters.getMailboxExecutor();
      return (T) new ClickHouseSinkOperator(parameters, config, store, background);
    }

    @Override
    @SuppressWarnings("rawtypes")
    public Class<? extends StreamOperator> getStreamOperatorClass(ClassLoader loader) {
      return ClickHouseSinkOperator.class;
    }
  }

  /** One subtask: the operator that makes blocks, and the sink. */
  private final class Subtask {
    final Manual background = new Manual();
    final OneInputStreamOperatorTestHarness<TableRow, NativeBlock> blocks;
    final OneInputStreamOperatorTestHarness<NativeBlock, Void> sink;
    private boolean begun;
    private int helps;

    Subtask(int number, int parallelism, JobID job) throws Exception {
      background.now = now;
      blocks =
          new OneInputStreamOperatorTestHarness<>(new RowBlocks(), Stage.environment(1, 0).build());
      blocks.setup(NativeBlock.TYPE.createSerializer(null));
      blocks.open();
      MockEnvironment environment = Stage.environment(parallelism, number).setJobID(job).build();
      sink =
          new OneInputStreamOperatorTestHarness<>(
              new Factory(store, background, folder.toUri().toString()), environment);
    }

    void open(OperatorSubtaskState state) throws Exception {
      begun = true;
      if (state != null) {
        sink.initializeState(state);
      }
      sink.open();
    }

    ClickHouseSinkOperator operator() {
      return (ClickHouseSinkOperator) sink.getOperator();
    }

    void read(TableRow row) throws Exception {
      blocks.processElement(new StreamRecord<>(row));
      handOn();
    }

    private void handOn() throws Exception {
      for (Object block = blocks.getOutput().poll();
          block != null;
          block = blocks.getOutput().poll()) {
        @SuppressWarnings("unchecked")
        StreamRecord<NativeBlock> record = (StreamRecord<NativeBlock>) block;
        helps = 0;
        background.mailbox.execute(this::help, "while the input is held");
        sink.processElement(record);
      }
    }

    /** The background work while the operator pauses its input. */
    private void help() throws Exception {
      if (!operator().holdsInput()) {
        return;
      }
      if (++helps > MAX_HELPS) {
        throw new HeldException();
      }
      store.next = Fate.STORED;
      background.now += Math.min(background.step.get(), 10_000);
      background.mailbox.execute(this::help, "while the input is held");
    }

    OperatorSubtaskState save(long id) throws Exception {
      blocks.prepareSnapshotPreBarrier(id);
      handOn();
      mails();
      return sink.snapshot(id, now);
    }

    /** One step in the background; returns for how long there is nothing to do. */
    long step(Fate fate) throws Exception {
      store.next = fate;
      long wait = background.step.get();
      mails();
      return wait;
    }

    private void mails() throws Exception {
      for (Optional<Mail> mail = sink.getTaskMailbox().tryTake(0);
          mail.isPresent();
          mail = sink.getTaskMailbox().tryTake(0)) {
        mail.get().run();
      }
    }

    void close() throws Exception {
      blocks.close();
      if (begun) {
        sink.close();
      }
    }
  }

  private record Checkpoint(
      long id, List<OperatorSubtaskState> states, int parallelism, long position) {}

  private final Path folder;
  private final StoreModel store = new StoreModel(STORE_REMEMBERS);
  private final List<Subtask> subtasks = new ArrayList<>();
  private final List<Checkpoint> complete = new ArrayList<>();
  private final Map<Path, Long> written = new HashMap<>();
  private final List<String> differences = new ArrayList<>();
  private final JobID job = new JobID();
  private Checkpoint begun;
  private long checkpoints;
  private long position;
  private long now = SECONDS * 1000;

  /** Why the job may refuse to continue; null if it must not. */
  private String excuse;

  private String refusal;

  /** Whether the job began again without state: then it removes only old files. */
  private boolean leavesYoungFiles;

  private int fell;

  /** Checkpoints that have begun since one was complete. */
  private int unfinished;

  /** The most octets that one line has written. */
  private long largest;

  SinkRunModel(Path folder) {
    this.folder = folder;
  }

  /** The error after these lines. */
  List<String> run(int parallelism, List<String> lines) throws Exception {
    try {
      start(null, parallelism);
      for (String line : lines) {
        long before = octets();
        happenOrFall(line);
        date();
        bounded(before);
      }
      rest();
    } catch (Exception e) {
      refused(e);
    }
    check();
    return differences;
  }

  /** Why the job did not continue; empty if it did. */
  String refusal() {
    return refusal == null ? "" : refusal;
  }

  /** How often the job fell because files waited for a checkpoint, and restarted. */
  int fell() {
    return fell;
  }

  /** Octets of all files. */
  private long octets() throws IOException {
    long octets = 0;
    for (Path file : files()) {
      octets += Files.size(file);
    }
    return octets;
  }

  /**
   * Checks the octets of files: what each subtask may have, once for a store that is away and once
   * for checkpoints that fail, and the rows read between a few checkpoints.
   */
  private void bounded(long before) throws IOException {
    long octets = octets();
    largest = Math.max(largest, octets - before);
    long most = subtasks.size() * 2L * MAX_PENDING + largest * LINES_BETWEEN;
    if (octets > most && differences.isEmpty()) {
      differences.add("files have " + octets + " octets, may have " + most);
    }
  }

  private void refused(Exception failure) throws Exception {
    for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
      if (cause instanceof HeldException && !store.refused.isEmpty()) {
        refusal = "held for blocks that are refused";
        return;
      }
      if (cause instanceof SuppressRestartsException) {
        refusal = cause.getCause().getMessage();
        if (excuse == null && !isForgotten()) {
          differences.add("refused without need: " + refusal);
        }
        return;
      }
    }
    differences.add("fell: " + failure + " at " + failure.getStackTrace()[0]);
  }

  /**
   * Whether the job reports that a token may have been forgotten, and there were that many blocks.
   */
  private boolean isForgotten() throws IOException {
    date();
    return refusal.contains("may have been inserted") && written.size() > REMEMBERED;
  }

  private void start(Checkpoint from, int parallelism) throws Exception {
    for (int i = 0; i < parallelism; i++) {
      subtasks.add(new Subtask(i, parallelism, job));
    }
    position = from == null ? 0 : from.position;
    checkpoints = from == null ? 0 : from.id;
    for (int i = 0; i < parallelism; i++) {
      OperatorSubtaskState state = null;
      if (from != null) {
        OperatorSubtaskState all =
            AbstractStreamOperatorTestHarness.repackageState(
                from.states.toArray(OperatorSubtaskState[]::new));
        state =
            AbstractStreamOperatorTestHarness.repartitionOperatorState(
                all, 128, from.parallelism, parallelism, i);
      }
      subtasks.get(i).open(state);
    }
  }

  /** One event. Where too much waits for a checkpoint, the job falls, and starts again. */
  private void happenOrFall(String line) throws Exception {
    try {
      happen(line.split(" "));
    } catch (ClickHouseSinkOperator.UnfinishedException e) {
      if (unfinished <= ClickHouseSinkOperator.MAX_UNFINISHED) {
        throw e;
      }
      fell++;
      crash(0, 1, 0);
    }
  }

  private void happen(String[] words) throws Exception {
    int number = words.length > 1 ? Integer.parseInt(words[1]) : 0;
    switch (words[0]) {
      case "rows" -> {
        for (int i = 0; i < number; i++) {
          subtasks.get((int) (position % subtasks.size())).read(row(position));
          position++;
        }
      }
      case "barrier" -> barrier();
      case "complete" -> complete(words.length > 1 ? number : -1);
      case "insert" -> {
        Fate fate =
            words.length > 2 ? Fate.valueOf(words[2].toUpperCase(Locale.ROOT)) : Fate.STORED;
        subtasks.get(number % subtasks.size()).step(fate);
      }
      case "refuse" -> {
        store.refuseNext = true;
        subtasks.get(number % subtasks.size()).step(Fate.STORED);
        store.refuseNext = false;
      }
      case "pass" -> pass(number * 1000L);
      case "crash" -> crash(0, number, words.length > 2 ? Integer.parseInt(words[2]) : 0);
      case "back" -> crash(number, 1, words.length > 2 ? Integer.parseInt(words[2]) : 0);
      case "lose" -> lose(number);
      default -> throw new IllegalArgumentException(words[0]);
    }
  }

  private static TableRow row(long number) {
    Object[] cells = new Object[Table.LEDGER.columns().size()];
    cells[0] = SECONDS + number % 2 * 31 * 86_400; // of two months in turns
    cells[Table.LEDGER.index("gap_packets")] = number + 1;
    cells[Table.LEDGER.index("clock_offset_us")] =
        (number + 1) % 3 == 0 ? (Long) (number + 1) : null;
    return new TableRow(Table.LEDGER, cells);
  }

  private void barrier() throws Exception {
    long id = ++checkpoints;
    unfinished++;
    List<OperatorSubtaskState> states = new ArrayList<>();
    for (Subtask subtask : subtasks) {
      states.add(subtask.save(id));
    }
    begun = new Checkpoint(id, states, subtasks.size(), position);
  }

  private void complete(int deaf) throws Exception {
    if (begun == null) {
      return;
    }
    complete.add(begun);
    if (deaf < 0 || deaf >= subtasks.size()) {
      unfinished = 0;
    }
    long id = begun.id;
    begun = null;
    for (int i = 0; i < subtasks.size(); i++) {
      if (i != deaf) {
        subtasks.get(i).sink.notifyOfCompletedCheckpoint(id);
      }
    }
  }

  private void pass(long ms) {
    now += ms;
    subtasks.forEach(subtask -> subtask.background.now = Math.max(subtask.background.now, now));
  }

  private void crash(int older, int seconds, int parallelism) throws Exception {
    int next = parallelism == 0 ? subtasks.size() : parallelism;
    closeAll();
    leavesYoungFiles = complete.isEmpty();
    begun = null;
    unfinished = 0;
    now += seconds * 1000L;
    for (int i = 0; i < older && complete.size() > 1; i++) {
      complete.remove(complete.size() - 1);
      excuse = "an older checkpoint";
    }
    start(complete.isEmpty() ? null : complete.get(complete.size() - 1), next);
  }

  private List<Path> files() throws IOException {
    try (Stream<Path> files = Files.list(folder)) {
      return files.filter(Files::isRegularFile).sorted().toList();
    }
  }

  private void lose(int number) throws IOException {
    List<Path> files = files();
    if (!files.isEmpty()) {
      Files.delete(files.get(number % files.size()));
      excuse = "a file is lost";
    }
  }

  /** The age of files follows this clock. */
  private void date() throws IOException {
    for (Path file : files()) {
      long at = written.computeIfAbsent(file, key -> now);
      Files.setLastModifiedTime(file, FileTime.fromMillis(at));
    }
  }

  /** Completes all remaining work, while the store accepts everything. */
  private void rest() throws Exception {
    for (int round = 0; round < 3; round++) {
      happenOrFall("barrier");
      happenOrFall("complete");
      for (int steps = 0; steps < MAX_STEPS; steps++) {
        long wait = Long.MAX_VALUE;
        for (Subtask subtask : subtasks) {
          wait = Math.min(wait, subtask.step(Fate.STORED));
        }
        if (wait >= 5_000) {
          break;
        }
        pass(Math.max(1, wait));
      }
      pass(20_000);
    }
    if (store.refused.isEmpty()) {
      for (Subtask subtask : subtasks) {
        if (subtask.operator().pendingBytes() != 0) {
          differences.add(subtask.operator().pendingBytes() + " octets are pending in the end");
        }
      }
      if (!files().isEmpty() && !leavesYoungFiles) {
        differences.add("files left in the end: " + files().size());
      }
    }
  }

  private void check() {
    store.rows.forEach(
        (number, times) -> {
          if (number < 0) {
            differences.add(times + " rows are not as they were");
          } else if (times > 1 && differences.size() < 5) {
            differences.add("row " + number + " is stored " + times + " times");
          }
        });
    if (refusal == null) {
      List<Long> missing = new ArrayList<>();
      for (long number = 1; number <= position; number++) {
        if (!store.rows.containsKey(number)) {
          missing.add(number);
        }
      }
      missing.removeAll(store.refusedRows);
      if (!missing.isEmpty()) {
        differences.add("rows are not stored: " + missing);
      }
    }
  }

  private void closeAll() throws Exception {
    for (Subtask subtask : subtasks) {
      subtask.close();
    }
    subtasks.clear();
  }

  @Override
  public void close() throws Exception {
    closeAll();
  }
}
