package io.weir.jobs.window;

import io.weir.jobs.message.StreamClock;
import io.weir.jobs.metrics.Metric;
import io.weir.jobs.operator.KeyedValue;
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
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Keeps one bucket's flows of each window and probe, and hands the jobs' digests of them on when it
 * is time: a probe's when all of the probe's workers have closed the window, the one over all when
 * all probes have, or {@code delay} after the window's end with what has come (for windows of the
 * past: after their first part came). What comes later is added, and the digests are handed on
 * again, at most every {@link #AGAIN_MS}, until {@link #KEEP_MS} after the window's end, or after
 * its last part where that came later; what comes then is counted and left out. To make room,
 * smaller flows of finished windows are added up. The flows of the window before are kept as long,
 * for the answers to SYNs at its end.
 *
 * <p>While a window is open its flows are only appended; they are added up when a digest is made.
 */
final class WindowFunction extends KeyedProcessFunction<Integer, WindowMessage, Digest> {
  private static final long serialVersionUID = 1;

  private static final String OPERATOR = "window-buckets";
  private static final Metric LATE =
      Metric.counter(
          "window_too_late_records",
          OPERATOR,
          "Ends of flow records for a window that takes nothing in any more; the records are in `flows`");
  private static final Metric DIGESTED =
      Metric.counter(
          "window_digested_flows", OPERATOR, "Flows that digests were made of, each time anew");
  private static final Metric COARSENED =
      Metric.counter(
          "window_coarsened_entries",
          OPERATOR,
          "Ends of flows added up because windows had more than `--window-flows`");
  private static final Metric ENTRIES =
      Metric.gauge("window_entries", OPERATOR, "Ends of flows that windows hold");
  static final List<Metric> METRICS = List.of(LATE, DIGESTED, COARSENED, ENTRIES);

  /** Least time between two digests of one window. */
  static final long AGAIN_MS = 5_000;

  /** For how long a window takes in what comes late. */
  static final long KEEP_MS = StreamClock.KEEP_MS;

  /**
   * Of the entries that a bucket may hold, what finished windows keep for what comes late: beyond
   * it their smaller flows are added up, those of the oldest window first.
   */
  private static final int KEEP_SHARE = 4;

  /** Entries of one probe and window, beside those added up before, that are added up. */
  static final int COMPACT_ENTRIES = 50_000;

  /** Entries of a probe in a finished window that are not worth adding up. */
  private static final int LEAST_ENTRIES = 8;

  private static final long TICK_MS = 1_000;

  private final long windowMs;
  private final long delayMs;
  private final long answerMs;
  private final int maxEntries;
  private final List<Digester> digesters;

  private transient MapState<Long, WindowState> windows;
  private transient KeyedValue<Progress> progress;
  private transient KeyedValue<Long> timer;
  private transient Counter late;
  private transient Counter digested;
  private transient Counter coarsened;
  private transient Flows flows;
  private transient int subtasks;

  /** Entries by bucket, and of all buckets of this subtask; at a restart known after a moment. */
  private transient Map<Integer, Integer> held;

  private transient long all;

  /**
   * Makes the function.
   *
   * @param maxEntries of all buckets: past it, buckets that have more than their share add flows up
   */
  WindowFunction(
      Duration window, Duration delay, Duration answer, int maxEntries, List<Digester> digesters) {
    windowMs = window.toMillis();
    delayMs = delay.toMillis();
    answerMs = answer.toMillis();
    this.maxEntries = maxEntries;
    this.digesters = new ArrayList<>(digesters);
  }

  @Override
  public void open(OpenContext context) {
    RuntimeContext runtime = getRuntimeContext();
    windows =
        runtime.getMapState(
            new MapStateDescriptor<>(
                "windows", LongSerializer.INSTANCE, new WindowState.Serializer()));
    progress = new KeyedValue<>(runtime, "progress", new Progress.Serializer());
    timer = new KeyedValue<>(runtime, "timer", LongSerializer.INSTANCE);
    MetricGroup group = runtime.getMetricGroup();
    late = LATE.register(group);
    digested = DIGESTED.register(group);
    coarsened = COARSENED.register(group);
    ENTRIES.register(group, () -> all);
    flows = new Flows();
    held = new HashMap<>();
    all = 0;
    subtasks = runtime.getTaskInfo().getNumberOfParallelSubtasks();
  }

  @Override
  public void processElement(WindowMessage message, Context context, Collector<Digest> out)
      throws Exception {
    long now = context.timerService().currentProcessingTime();
    Progress known = progress.get(Progress::new);
    long[] data = message.data();
    switch (message.kind()) {
      case PART -> {
        if (known.isOver(message.probe(), message.window() / windowMs)) {
          late.inc(message.entries());
          return;
        }
        if (known.isOver("", message.window() / windowMs)) {
          late.inc(message.entries()); // too late for what is over all
        }
        add(message, context.getCurrentKey(), known.advance(now), now);
      }
      case MARK -> {
        known.mark(message.probe(), (int) data[0], (int) data[1], data[2], data[3], data[4], now);
        progress.keep(known);
        tick(known, now, context.getCurrentKey(), out);
      }
      case ENROLLED -> {
        known.expected = (int) data[0];
        known.advance(now);
        progress.keep(known);
      }
    }
    schedule(context, now);
  }

  @Override
  public void onTimer(long timestamp, OnTimerContext context, Collector<Digest> out)
      throws Exception {
    long now = context.timerService().currentProcessingTime();
    timer.forget();
    tick(progress.get(), now, context.getCurrentKey(), out);
    schedule(context, now);
  }

  private void schedule(Context context, long now) throws Exception {
    if (timer.get() == null && !windows.isEmpty()) {
      long next = (now / TICK_MS + 1) * TICK_MS;
      timer.keep(next);
      context.timerService().registerProcessingTimeTimer(next);
    }
  }

  private void add(WindowMessage message, int bucket, long clock, long now) throws Exception {
    WindowState window = windows.get(message.window());
    if (window == null) {
      window = new WindowState();
      window.began = StreamClock.began(clock, now, message.window() + windowMs);
    }
    window.touched = clock;
    Log log = window.probes.computeIfAbsent(message.probe(), key -> new Log());
    log.rank = message.rank();
    log.add(message.data(), message.entries());
    log.addSketches(message.sketches());
    held.merge(bucket, message.entries(), Integer::sum);
    all += message.entries();
    int share = maxEntries / Buckets.COUNT;
    boolean full = all > maxEntries / subtasks && log.entries > share;
    int more = log.entries - log.compacted;
    if (full ? more > share / 2 : more > COMPACT_ENTRIES + log.compacted) {
      int before = log.entries;
      flows.compact(log, Buckets.number(bucket), full ? share : Integer.MAX_VALUE);
      held.merge(bucket, log.entries - before, Integer::sum);
      all += log.entries - before;
      coarsened.inc(full ? before - log.entries : 0);
    }
    log.said.changed = true;
    window.all.changed = true;
    windows.put(message.window(), window);
  }

  /** Hands on every digest that is due, and drops windows that are over. */
  private void tick(Progress known, long now, int bucket, Collector<Digest> out) throws Exception {
    long clock = known.advance(now);
    TreeMap<Long, WindowState> ordered = new TreeMap<>();
    for (Map.Entry<Long, WindowState> entry : windows.entries()) {
      ordered.put(entry.getKey(), entry.getValue());
    }
    int finished = 0;
    List<Long> keptForLate = new ArrayList<>();
    for (Map.Entry<Long, WindowState> entry : ordered.entrySet()) {
      long start = entry.getKey();
      long end = start + windowMs;
      WindowState window = entry.getValue();
      WindowState before = ordered.get(start - windowMs);
      WindowState after = ordered.get(end);
      // A clock that is far ahead is not waited for.
      boolean ahead = end - window.began > windowMs + KEEP_MS;
      long whole = ahead ? window.began + windowMs : Math.max(end, window.began);
      boolean waited = clock >= whole + delayMs;
      boolean said = false;
      boolean probesChanged = false;
      for (Map.Entry<String, Log> probe : window.probes.entrySet()) {
        Log log = probe.getValue();
        boolean complete = known.complete(probe.getKey(), end);
        int reported = complete ? 1 : 0;
        boolean over = known.isOver(probe.getKey(), start / windowMs); // its flows are gone
        if (!over && log.said.due(complete || waited, reported, now, AGAIN_MS)) {
          load(bucket, false, List.of(log), said(before, probe.getKey()));
          flows.settle(log);
          say(probe.getKey(), start, bucket, reported, 1, log.said, out);
          leave(log.said, flows.attempts().late(), judging(after, end, probe.getKey(), known));
          log.said.said(reported, now);
          said = true;
        }
        probesChanged |= log.said.changed;
      }
      int reported = known.reported(end);
      boolean complete = known.expected > 0 && reported >= known.expected;
      if (known.isOver("", start / windowMs)) {
        // What was said over all was of more than what has come since: it stays.
        if (waited && window.all.changed) {
          window.all.said(reported, now);
          said = true;
        }
      } else if (window.all.due(complete || waited, reported, now, AGAIN_MS)) {
        int expected = Math.max(known.expected, reported);
        load(bucket, true, List.copyOf(window.probes.values()), said(before, ""));
        say("", start, bucket, reported, expected, window.all, out);
        leave(window.all, window.shared(flows.attempts().late()), judging(after, end, "", known));
        window.all.said(reported, now);
        said = true;
      }
      if (said) {
        windows.put(start, window);
        if (after != null) {
          windows.put(end, after);
        }
      }
      if (window.all.at != 0
          && !window.all.changed
          && !probesChanged
          && !isOver(start, window, known)) {
        if (clock - Math.max(window.touched, whole) >= KEEP_MS) {
          end(start, window, known, clock);
        } else {
          finished += window.entries();
          keptForLate.add(start);
        }
      }
    }
    for (long start : keptForLate) {
      if (finished <= maxEntries / KEEP_SHARE / Buckets.COUNT) {
        break;
      }
      WindowState window = ordered.get(start);
      int before = window.entries();
      for (Log log : window.probes.values()) {
        if (log.entries > LEAST_ENTRIES) {
          flows.compact(log, Buckets.number(bucket), Math.max(LEAST_ENTRIES, log.entries / 4));
        }
      }
      int gone = before - window.entries();
      if (gone > 0) {
        coarsened.inc(gone);
        finished -= gone;
        windows.put(start, window);
      }
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
    int entries = 0;
    for (WindowState window : ordered.values()) {
      entries += window.entries();
    }
    Integer counted = held.put(bucket, entries);
    all += entries - (counted == null ? 0 : counted);
  }

  /** What was said of a probe, or of all for an empty name; null where there is nothing. */
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
    long[] late = before == null ? new long[0] : before.late;
    flows.load(Buckets.number(bucket), overAll, logs, late, windowMs - answerMs);
    digested.inc(flows.size());
  }

  /** What is said of the window that judges what the one before left; null where it is over. */
  private Said judging(WindowState after, long start, String probe, Progress known) {
    return known.isOver(probe, start / windowMs) ? null : said(after, probe);
  }

  /** Leaves to the next window the attempts that it is to judge: anew, if they are others. */
  private static void leave(Said said, long[] late, Said judging) {
    if (!Arrays.equals(late, said.late)) {
      said.late = late;
      if (judging != null) {
        judging.changed = true;
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
      Collector<Digest> out) {
    for (int job = 0; job < digesters.size(); job++) {
      Digester digester = digesters.get(job);
      long[] data = digester.digest(flows);
      if (digester.sums() > 0) {
        Sums difference = new Sums(digester.sums() - Sums.KEY);
        difference.addAll(data, 0, data.length, 1);
        difference.addAll(said.sums, 0, said.sums.length, -1);
        said.sums = data;
        data = difference.toArray();
      }
      out.collect(new Digest(job, probe, start, bucket, reported, expected, data));
    }
  }

  /**
   * Whether a window takes in nothing more of those that it knows. What it tried at its end is
   * still kept while the next one does, which judges it.
   */
  private boolean isOver(long start, WindowState window, Progress known) {
    return known.isOver("", start / windowMs)
        && window.probes.keySet().stream().allMatch(probe -> known.isOver(probe, start / windowMs));
  }

  /** Ends a window; one that is yet to come by the clock is not over for those who are on time. */
  private void end(long start, WindowState window, Progress known, long clock) throws Exception {
    if (start + windowMs > clock) {
      windows.remove(start);
      return;
    }
    for (String probe : window.probes.keySet()) {
      known.setOver(probe, start / windowMs);
    }
    known.setOver("", start / windowMs);
    progress.keep(known);
    window.probes.values().forEach(Log::end);
    windows.put(start, window);
  }
}
