package io.weir.jobs.window;

import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.StreamClock;
import io.weir.jobs.metrics.Metric;
import io.weir.jobs.operator.KeyedValue;
import io.weir.jobs.operator.WakeUp;
import io.weir.jobs.serde.Compressed;
import io.weir.jobs.window.WindowState.Log;
import io.weir.jobs.window.WindowState.Said;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Keeps one bucket's flows of each window and probe, and emits the jobs' digests of them: a probe's
 * digest when all of the probe's workers have closed the window, and the digest over all probes
 * when all probes have, or {@code delay} after the window's end with the data received so far (for
 * windows of the past: after their first part arrived). It adds later data and emits the digests
 * again, at most every {@link #AGAIN_MS}, until {@link #KEEP_MS} after the window's end, or after
 * its last part if that arrived later; after that, it counts and drops further data. It ends
 * windows far ahead of the clock earlier ({@link StreamClock#AHEAD_MS}). The attempts at the end of
 * the previous window are kept as long, to be judged.
 *
 * <p>All buckets of all subtasks share one budget of entries. When it is spent, each bucket that
 * holds more than its share makes {@link Room}.
 *
 * <p>While a window is open its flows are only appended; they are added up when a digest is
 * computed.
 */
final class WindowFunction extends KeyedProcessFunction<Integer, WindowMessage, Digest>
    implements CheckpointedFunction {
  private static final long serialVersionUID = 1;

  private static final String OPERATOR = "window-buckets";
  private static final Metric LATE =
      Metric.counter(
          "window_too_late_records",
          OPERATOR,
          "Ends of flow records for a window that no longer accepts data; the records are in `flows`");
  private static final Metric DIGESTED =
      Metric.counter(
          "window_digested_flows",
          OPERATOR,
          "Flows that digests were computed from, counted each time");
  private static final Metric COARSENED =
      Metric.counter(
          "window_coarsened_entries",
          OPERATOR,
          "Ends of flows aggregated because windows had more than `--window-flows`");
  private static final Metric ENTRIES =
      Metric.gauge(
          "window_entries",
          OPERATOR,
          "Ends of flows that windows hold; attempts to be judged count by the memory they take");
  static final List<Metric> METRICS = List.of(LATE, DIGESTED, COARSENED, ENTRIES);

  /** Minimum time between two digests of one window. */
  static final long AGAIN_MS = 5_000;

  /** How long a window accepts late data. */
  static final long KEEP_MS = StreamClock.KEEP_MS;

  /**
   * The share of all entries that finished windows may keep for late data. Beyond it, each bucket
   * that holds more than its part adds up their smaller flows, those of the oldest window first.
   */
  private static final int KEEP_SHARE = 4;

  /** Number of new entries of one probe and window from which they are added up. */
  static final int COMPACT_ENTRIES = 50_000;

  private static final long TICK_MS = 1_000;

  private final long windowMs;
  private final long delayMs;
  private final long answerMs;
  private final int maxEntries;
  private final List<Digester> digesters;
  private final long spanMs;

  private transient MapState<Long, WindowState> windows;
  private transient KeyedValue<Over> over;
  private transient Progress progress;
  private transient ListState<Progress> kept;
  private transient WakeUp timer;
  private transient Counter late;
  private transient Counter digested;
  private transient Counter coarsened;
  private transient Flows flows;
  private transient int subtasks;

  /** {@link WindowState#weight} by bucket; known shortly after a restart. */
  private transient Map<Integer, Integer> held;

  /** The weight of all buckets of this subtask. */
  private transient long all;

  /** The weight from which a bucket that held too much makes room again. */
  private transient Map<Integer, Integer> tryAgain;

  /**
   * Creates the function.
   *
   * @param maxEntries of all buckets of all subtasks
   * @param span the window of those jobs that add up the digests of several windows
   */
  WindowFunction(
      Duration window,
      Duration delay,
      Duration answer,
      int maxEntries,
      List<Digester> digesters,
      Duration span) {
    windowMs = window.toMillis();
    delayMs = delay.toMillis();
    answerMs = answer.toMillis();
    this.maxEntries = maxEntries;
    this.digesters = new ArrayList<>(digesters);
    spanMs = span.toMillis();
  }

  @Override
  public void initializeState(FunctionInitializationContext context) throws Exception {
    kept = context.getOperatorStateStore().getUnionListState(Progress.STATE);
    progress = new Progress();
    for (Progress one : kept.get()) {
      progress.restore(one);
    }
  }

  @Override
  public void snapshotState(FunctionSnapshotContext context) throws Exception {
    kept.update(List.of(progress));
  }

  @Override
  public void open(OpenContext context) {
    RuntimeContext runtime = getRuntimeContext();
    windows =
        runtime.getMapState(
            new MapStateDescriptor<>(
                "windows", LongSerializer.INSTANCE, new WindowState.Serializer()));
    over = Over.state(runtime);
    timer = new WakeUp(runtime);
    MetricGroup group = runtime.getMetricGroup();
    late = LATE.register(group);
    digested = DIGESTED.register(group);
    coarsened = COARSENED.register(group);
    ENTRIES.register(group, this::entries);
    flows = new Flows();
    held = new HashMap<>();
    tryAgain = new HashMap<>();
    all = 0;
    subtasks = runtime.getTaskInfo().getNumberOfParallelSubtasks();
  }

  /** Entries of all windows of this subtask. */
  long entries() {
    return all;
  }

  @Override
  public void processElement(WindowMessage message, Context context, Collector<Digest> out)
      throws Exception {
    long now = context.timerService().currentProcessingTime();
    long[] data = message.data();
    switch (message.kind()) {
      case PART -> {
        Over known = Over.of(over);
        if (known.has(message.probe(), message.window() / windowMs)) {
          late.inc(message.entries());
          return;
        }
        if (known.has("", message.window() / windowMs)) {
          late.inc(message.entries()); // too late for what is over all
        }
        add(message, context.getCurrentKey(), progress.advance(now), now);
        schedule(context, now);
      }
      case MARK -> progress.mark(message.probe(), Progress.Mark.of(data), now);
      case READ -> progress.read(message.probe(), (int) data[0], data[1], data[2], now);
      case ENROLLED -> {
        long[] ends = Arrays.copyOfRange(data, 1, data.length);
        progress.list(Enrolment.names(message.probe()), data[0], ends, now);
        progress.advance(now);
      }
    }
  }

  @Override
  public void onTimer(long timestamp, OnTimerContext context, Collector<Digest> out)
      throws Exception {
    long now = timer.rang(context.timerService());
    tick(now, context.getCurrentKey(), out);
    schedule(context, now);
  }

  private void schedule(Context context, long now) throws Exception {
    if (!windows.isEmpty() || !Over.of(over).open().isEmpty()) {
      timer.setNext(context.timerService(), now, TICK_MS);
    }
  }

  private void add(WindowMessage message, int bucket, long clock, long now) throws Exception {
    long arrived = StreamClock.arrived(clock, now, message.appended());
    WindowState window = windows.get(message.window());
    if (window == null) {
      window = new WindowState();
      window.began = arrived;
    }
    window.touched = Math.max(window.touched, arrived);
    window.look = WindowState.NOT_LOOKED;
    Log log = window.probes.computeIfAbsent(message.probe(), key -> new Log());
    log.rank = message.rank();
    log.add(message.data(), message.entries());
    log.addSketches(message.sketches());
    window.entries += message.entries();
    if (log.entries - log.compacted > COMPACT_ENTRIES + log.compacted) {
      window.entries -= log.entries;
      flows.compact(log, Buckets.number(bucket), Integer.MAX_VALUE);
      window.entries += log.entries;
    }
    log.said.changed = true;
    window.all.changed = true;
    windows.put(message.window(), window);
    int weight = hold(bucket, held.getOrDefault(bucket, 0) + message.entries());
    int share = maxEntries / Buckets.COUNT;
    if (all > maxEntries / subtasks && weight > tryAgain.getOrDefault(bucket, share)) {
      TreeMap<Long, WindowState> ordered = ordered();
      int left = makeRoom(ordered, weight(ordered) - share * 3 / 4, bucket, List.of(Room.values()));
      tryAgain.put(bucket, Math.max(share, left + share / 8));
    }
  }

  /** Notes the weight of a bucket, and returns it. */
  private int hold(int bucket, int weight) {
    Integer before = held.put(bucket, weight);
    all += weight - (before == null ? 0 : before);
    return weight;
  }

  private TreeMap<Long, WindowState> ordered() throws Exception {
    TreeMap<Long, WindowState> ordered = new TreeMap<>();
    for (Map.Entry<Long, WindowState> entry : windows.entries()) {
      ordered.put(entry.getKey(), entry.getValue());
    }
    return ordered;
  }

  private static int weight(TreeMap<Long, WindowState> ordered) {
    int weight = 0;
    for (WindowState window : ordered.values()) {
      weight += window.weight();
    }
    return weight;
  }

  /** Emits every digest that is due, and drops finished windows. */
  private void tick(long now, int bucket, Collector<Digest> out) throws Exception {
    long clock = progress.advance(now);
    Over known = Over.of(over);
    if (known.forget(progress, clock, windowMs, spanMs)) {
      over.keep(known);
    }
    TreeMap<Long, WindowState> ordered = ordered();
    int finished = 0;
    for (Map.Entry<Long, WindowState> entry : ordered.entrySet()) {
      long start = entry.getKey();
      WindowState window = entry.getValue();
      if (window.notAfter(now)) {
        windows.put(start, window);
      }
      int reported = progress.reported(start + windowMs);
      if (window.look.isDue(now, clock, reported, progress.turn())) {
        lookAt(start, window, ordered, known, clock, now, bucket, out);
      }
      finished += window.look.finished ? window.entries : 0;
    }
    // After a restart no bucket is in the sum yet, this one included.
    hold(bucket, weight(ordered));
    int kept = maxEntries / KEEP_SHARE / Buckets.COUNT;
    if (finished > kept && all > maxEntries / KEEP_SHARE / subtasks) {
      makeRoom(ordered, finished - kept, bucket, List.of(Room.FINISHED));
    }
    for (Map.Entry<Long, WindowState> entry : ordered.entrySet()) {
      long next = entry.getKey() + windowMs;
      WindowState after = ordered.get(next);
      boolean needless =
          after == null ? clock - entry.getValue().touched >= KEEP_MS : isOver(next, after, known);
      if (needless && isOver(entry.getKey(), entry.getValue(), known)) {
        windows.remove(entry.getKey());
      }
    }
    endSpans(ordered, known, clock, bucket, out);
    hold(bucket, weight(ordered));
    tryAgain.remove(bucket);
  }

  /** Ends the spans that no window can change any more. */
  private void endSpans(
      TreeMap<Long, WindowState> ordered, Over known, long clock, int bucket, Collector<Digest> out)
      throws Exception {
    List<Map.Entry<Long, String>> ending = new ArrayList<>();
    known
        .open()
        .headMap(Math.floorDiv(clock - KEEP_MS, spanMs))
        .forEach(
            (number, probes) ->
                probes.stream()
                    .filter(probe -> !isOpen(probe, number * spanMs, ordered, known))
                    .forEach(probe -> ending.add(Map.entry(number, probe))));
    for (Map.Entry<Long, String> span : ending) {
      known.endSpan(span.getValue(), span.getKey());
      for (int job = 0; job < digesters.size(); job++) {
        if (digesters.get(job).sums() > 0) {
          out.collect(Digest.last(job, span.getValue(), span.getKey() * spanMs, bucket));
        }
      }
    }
    if (!ending.isEmpty()) {
      over.keep(known);
    }
  }

  /** Whether a window of the span that begins then may still get data of a probe, or of all. */
  private boolean isOpen(String probe, long span, TreeMap<Long, WindowState> ordered, Over known) {
    return ordered.subMap(span, span + spanMs).entrySet().stream()
        .anyMatch(
            window ->
                (probe.isEmpty() || window.getValue().probes.containsKey(probe))
                    && !known.has(probe, window.getKey() / windowMs));
  }

  /** Emits the digests of one window that are due, and ends the window when it is over. */
  private void lookAt(
      long start,
      WindowState window,
      TreeMap<Long, WindowState> ordered,
      Over known,
      long clock,
      long now,
      int bucket,
      Collector<Digest> out)
      throws Exception {
    long end = start + windowMs;
    WindowState before = ordered.get(start - windowMs);
    WindowState after = ordered.get(end);
    StreamClock.Ending ending = StreamClock.Ending.of(clock, start, windowMs, window.began);
    boolean far = ending.far();
    boolean waited = !far && clock >= ending.whole() + delayMs;
    int reported = progress.reported(end);
    WindowState.Look look = new WindowState.Look(reported, progress.turn());
    window.look = look;
    if (!waited && !far) {
      look.atClock(ending.whole() + delayMs);
      if (reported == 0 && !window.told) { // nothing can be due
        return;
      }
    }
    boolean said = false;
    boolean probesOwed = false;
    for (Map.Entry<String, Log> probe : window.probes.entrySet()) {
      Log log = probe.getValue();
      if (!log.said.changed && (log.said.reported > 0 || log.said.at == 0)) {
        continue; // all was said
      }
      int complete = progress.complete(probe.getKey(), end) ? 1 : 0;
      if (complete == 0 && !waited && log.said.at == 0) {
        probesOwed = true;
        continue;
      }
      if (known.has(probe.getKey(), start / windowMs)) { // its flows are gone
        probesOwed |= log.said.changed;
        continue;
      }
      if (log.said.due(complete > 0 || waited, complete, now, AGAIN_MS)) {
        load(bucket, false, List.of(log), said(before, probe.getKey()));
        window.entries -= log.entries;
        flows.settle(log);
        window.entries += log.entries;
        say(probe.getKey(), start, bucket, complete, 1, log.said, known, out);
        leave(log.said, late(), judging(after, end, probe.getKey(), known), after);
        log.said.said(complete, now);
        said = true;
      }
      look.again(log.said, complete, AGAIN_MS);
      probesOwed |= log.said.owes(complete);
    }
    boolean complete = progress.expected() > 0 && reported >= progress.expected();
    if (known.has("", start / windowMs)) {
      // The earlier digest over all probes covered more data than has arrived since: it stays.
      if (waited && window.all.changed) {
        window.all.said(reported, now);
        said = true;
      }
    } else {
      if ((complete || waited) && window.all.due(true, reported, now, AGAIN_MS)) {
        int expected = Math.max(progress.expected(), reported);
        load(bucket, true, List.copyOf(window.probes.values()), said(before, ""));
        say("", start, bucket, reported, expected, window.all, known, out);
        byte[] late = window.shared(late());
        leave(window.all, late, judging(after, end, "", known), after);
        window.all.said(reported, now);
        said = true;
      }
      look.again(window.all, reported, AGAIN_MS);
    }
    if (said) {
      over.keep(known);
      window.told = true;
      window.weigh();
      windows.put(start, window);
      if (after != null) {
        windows.put(end, after);
      }
    }
    boolean owed = window.all.owes(known.has("", start / windowMs) ? 0 : reported);
    boolean allSaid = window.all.at != 0 && !owed && !probesOwed;
    if ((far || allSaid) && !isOver(start, window, known)) {
      long until = ending.keptFrom(window.touched) + KEEP_MS;
      if (clock >= until) {
        end(start, window, known, far, bucket, out);
      } else {
        look.finished = true;
        look.atClock(far ? Math.min(until, start - StreamClock.AHEAD_MS) : until);
      }
    }
  }

  /**
   * Frees this much weight of a bucket, if it can, in these ways, the oldest windows first.
   *
   * @return the weight of the bucket afterwards
   */
  private int makeRoom(TreeMap<Long, WindowState> ordered, int excess, int bucket, List<Room> ways)
      throws Exception {
    int left = weight(ordered);
    int most = left - excess;
    for (Room way : ways) {
      for (Map.Entry<Long, WindowState> entry : ordered.entrySet()) {
        if (left > most) {
          WindowState window = entry.getValue();
          WindowState after = ordered.get(entry.getKey() + windowMs);
          int before = window.weight();
          coarsened.inc(way.make(window, after, left - most, flows, bucket));
          if (window.weight() != before) {
            left -= before - window.weight();
            windows.put(entry.getKey(), window);
          }
        }
      }
    }
    return hold(bucket, left);
  }

  /** The data of a probe, or of all probes for an empty name; null if there is none. */
  private static Said said(WindowState window, String probe) {
    if (window == null) {
      return null;
    }
    if (probe.isEmpty()) {
      return window.all;
    }
    Log log = window.probes.get(probe);
    return log == null ? null : log.said;
  }

  private void load(int bucket, boolean overAll, List<Log> logs, Said before) {
    long[] late = Compressed.numbers(before == null ? Compressed.NONE : before.late);
    flows.load(Buckets.number(bucket), overAll, logs, late, windowMs - answerMs);
    digested.inc(flows.size());
  }

  /** The attempts that the loaded window defers. */
  private byte[] late() {
    return Compressed.of(flows.attempts().late());
  }

  /**
   * The data of the window that judges the attempts left by the previous one; null if it is over.
   */
  private Said judging(WindowState after, long start, String probe, Over known) {
    return known.has(probe, start / windowMs) ? null : said(after, probe);
  }

  /**
   * Hands the next window the attempts that it must judge; if they have changed, marks that window
   * for another look.
   */
  private static void leave(Said said, byte[] late, Said judging, WindowState after) {
    if (!Arrays.equals(late, said.late)) {
      said.late = late;
      if (judging != null) {
        judging.changed = true;
        after.look = WindowState.NOT_LOOKED;
      }
    }
  }

  private void say(
      String probe,
      long start,
      int bucket,
      int reported,
      int expected,
      Said said,
      Over known,
      Collector<Digest> out)
      throws Exception {
    for (int job = 0; job < digesters.size(); job++) {
      Digester digester = digesters.get(job);
      long[] data = digester.digest(flows);
      if (digester.sums() > 0) {
        if (!known.openSpan(probe, Math.floorDiv(start, spanMs))) {
          late.inc(flows.size());
          continue;
        }
        Sums difference = new Sums(digester.sums() - Sums.KEY);
        difference.addAll(data, 0, data.length, 1);
        long[] sent = Compressed.numbers(said.sums);
        if (sent.length > 0) {
          MergeFunction.refuseOther(said.stride, digester.sums());
        }
        difference.addAll(sent, 0, sent.length, -1);
        said.sums = Compressed.of(data);
        said.stride = digester.sums();
        data = difference.toArray();
      }
      out.collect(Digest.of(job, probe, start, bucket, reported, expected, data));
    }
  }

  /**
   * Whether a window no longer accepts data. Attempts at its end are kept as long as the next
   * window, which judges them.
   */
  private boolean isOver(long start, WindowState window, Over known) {
    return known.has("", start / windowMs)
        && window.probes.keySet().stream().allMatch(probe -> known.has(probe, start / windowMs));
  }

  /**
   * Ends a window. In one that is far ahead, everything without a digest stays open: its time comes
   * later, and other probes reach it then.
   */
  private void end(
      long start, WindowState window, Over known, boolean far, int bucket, Collector<Digest> out)
      throws Exception {
    for (Map.Entry<String, Log> probe : window.probes.entrySet()) {
      if (!far || probe.getValue().said.at != 0) {
        end(probe.getKey(), start, known, bucket, out);
      } else {
        late.inc(probe.getValue().entries);
      }
    }
    if (window.all.at != 0) {
      end("", start, known, bucket, out);
    }
    over.keep(known);
    if (far) {
      windows.remove(start);
      return;
    }
    window.end();
    windows.put(start, window);
  }

  /** Ends a window for one scope, and says so where its digests are kept. */
  private void end(String probe, long start, Over known, int bucket, Collector<Digest> out) {
    if (known.has(probe, start / windowMs)) {
      return;
    }
    known.add(probe, start / windowMs);
    for (int job = 0; job < digesters.size(); job++) {
      if (digesters.get(job).sums() == 0) {
        out.collect(Digest.last(job, probe, start, bucket));
      }
    }
  }
}
