package io.weir.jobs.window;

import io.weir.jobs.operator.KeyedValue;
import io.weir.jobs.serde.Fields;
import io.weir.jobs.serde.Form;
import io.weir.jobs.serde.FormSerializer;
import io.weir.jobs.serde.Longs;
import io.weir.jobs.table.TableRow;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Adds up the buckets' sums of short windows to those of a longer one, for one probe or over all
 * probes, and produces its rows: when the digests of the last short window have arrived from every
 * bucket, or {@code delay} after the end with the data received so far (for windows of the past:
 * after their first part arrived); and again, with the next version, when more arrives, until every
 * bucket has sent its last digest.
 */
final class SumFunction extends KeyedProcessFunction<String, Digest, TableRow> {
  private static final long serialVersionUID = 1;

  private static final long AGAIN_MS = WindowFunction.AGAIN_MS;

  private final long shortMs;
  private final long windowMs;
  private final long delayMs;
  private final int stride;
  private final RowMaker maker;

  private transient KeyedValue<Window> state;

  /** A window; times are ms from 1970. */
  static final class Window {
    final Sums sums;

    /** Buckets whose digest of the last short window has arrived, one bit each. */
    long last;

    /** Buckets that send no more digests of the window, one bit each. */
    long ended;

    /** Probes reported and expected, by the start of the short window. */
    final Map<Long, long[]> reports = new TreeMap<>();

    Lists written = new Lists();
    long began;
    long touched;
    long said;
    boolean changed;
    long timer;

    /** Minutes without a digest, counted while the jobs run. */
    int idle;

    Window(int stride, long began) {
      sums = new Sums(stride - Sums.KEY);
      this.began = began;
    }

    /** Moves times that are ahead of the clock to it: it has been ahead and was set back. */
    private void notAfter(long now) {
      began = Math.min(began, now);
      touched = Math.min(touched, now);
      said = Math.min(said, now);
    }

    private void fields(Fields fields) throws IOException {
      began = fields.of("began", began);
      touched = fields.of("touched", touched);
      said = fields.of("said", said);
      changed = fields.of("changed", changed);
      timer = fields.of("timer", timer);
      idle = fields.of("idle", idle);
    }
  }

  SumFunction(Duration shortWindow, Duration window, Duration delay, int stride, RowMaker maker) {
    shortMs = shortWindow.toMillis();
    windowMs = window.toMillis();
    delayMs = delay.toMillis();
    this.stride = stride;
    this.maker = maker;
  }

  /** The key by which sums are added up. */
  String key(Digest digest) {
    return Math.floorDiv(digest.window(), windowMs) * windowMs + "/" + digest.probe();
  }

  @Override
  public void open(OpenContext context) {
    state = new KeyedValue<>(getRuntimeContext(), "window", new Serializer());
  }

  @Override
  public void processElement(Digest digest, Context context, Collector<TableRow> out)
      throws Exception {
    long now = context.timerService().currentProcessingTime();
    if (digest.last()) {
      end(digest, context.getCurrentKey(), now, out);
      return;
    }
    Window window = state.get(() -> new Window(stride, now));
    window.notAfter(now);
    MergeFunction.refuseOther(window.sums.stride(), stride);
    long start = Math.floorDiv(digest.window(), windowMs) * windowMs;
    long[] data = digest.data();
    window.sums.addAll(data, 0, data.length, 1);
    window.touched = now;
    window.idle = 0;
    window.changed = true;
    long[] report =
        window.reports.computeIfAbsent(digest.window(), key -> new long[] {Long.MAX_VALUE, 0, 0});
    // Each bucket sends one digest per round: a second one from the same bucket begins a new round.
    long bit = Buckets.bit(digest.bucket());
    if ((report[2] & bit) != 0) {
      report[0] = Long.MAX_VALUE;
      report[2] = 0;
    }
    report[0] = Math.min(report[0], digest.reported());
    report[1] = Math.max(report[1], digest.expected());
    report[2] |= bit;
    if (digest.window() == start + windowMs - shortMs) {
      window.last |= bit;
    }
    look(context.getCurrentKey(), window, start, now, out);
    schedule(context, window, start, now);
    state.keep(window);
  }

  @Override
  public void onTimer(long timestamp, OnTimerContext context, Collector<TableRow> out)
      throws Exception {
    Window window = state.get();
    if (window == null || timestamp < window.timer) {
      return;
    }
    MergeFunction.refuseOther(window.sums.stride(), stride);
    long now = context.timerService().currentProcessingTime();
    String key = context.getCurrentKey();
    long start = Long.parseLong(key.substring(0, key.indexOf('/')));
    window.timer = 0;
    window.notAfter(now);
    look(key, window, start, now, out);
    if (!window.changed && ++window.idle > MergeFunction.KEEP_MINUTES) {
      state.forget();
      return;
    }
    schedule(context, window, start, now);
    state.keep(window);
  }

  private void end(Digest digest, String key, long now, Collector<TableRow> out) throws Exception {
    Window window = state.get();
    if (window == null) {
      return;
    }
    window.ended |= Buckets.bit(digest.bucket());
    if (window.ended != Buckets.ALL) {
      state.keep(window);
      return;
    }
    if (window.changed) {
      write(key, window, digest.window(), now, out);
    }
    state.forget();
  }

  private void look(String key, Window window, long start, long now, Collector<TableRow> out) {
    boolean complete = window.last == Buckets.ALL;
    boolean waited = now >= due(window, start);
    boolean settled = now - window.touched >= MergeFunction.SETTLE_MS;
    boolean first = window.said == 0 && (complete || waited);
    boolean again = window.said > 0 && settled && now - window.said >= AGAIN_MS;
    if (window.changed && (first || again)) {
      write(key, window, start, now, out);
    }
  }

  private void write(String key, Window window, long start, long now, Collector<TableRow> out) {
    long reported = Long.MAX_VALUE;
    long expected = 0;
    for (long[] report : window.reports.values()) {
      reported = Math.min(reported, report[0]);
      expected = Math.max(expected, report[1]);
    }
    String probe = key.substring(key.indexOf('/') + 1);
    Digest all =
        Digest.of(0, probe, start, 0, (int) reported, (int) expected, window.sums.toArray());
    window.written.write(
        maker.rows(List.of(all)), start, windowMs, probe, (int) reported, (int) expected, out);
    window.said = now;
    window.changed = false;
  }

  /** When to write the window with the data received so far. */
  private long due(Window window, long start) {
    boolean ahead = start > window.began + WindowFunction.KEEP_MS;
    return Math.max(ahead ? 0 : start + windowMs, window.began + shortMs) + delayMs;
  }

  private void schedule(Context context, Window window, long start, long now) {
    long next = now + MergeFunction.MINUTE_MS;
    if (window.changed) {
      next =
          window.said == 0
              ? due(window, start)
              : Math.max(window.said + AGAIN_MS, window.touched + MergeFunction.SETTLE_MS);
    }
    next = Math.max(next, now + 1);
    if (window.timer == 0 || next < window.timer) {
      window.timer = next;
      context.timerService().registerProcessingTimeTimer(next);
    }
  }

  /** Writes a {@link Window}. */
  public static final class Serializer extends FormSerializer<Window> {
    private static final long serialVersionUID = 1;
    private static final Lists.Serializer LISTS = new Lists.Serializer();

    public Serializer() {
      super(Form.of("2").with("window", new Window(Sums.KEY, 0)::fields).with(Lists.form()));
    }

    @Override
    public Window copy(Window from) {
      Window copy = new Window(from.sums.stride(), from.began);
      copy.sums.addAll(from.sums.cells(), 0, from.sums.size() * from.sums.stride(), 1);
      copy.last = from.last;
      copy.ended = from.ended;
      from.reports.forEach((start, report) -> copy.reports.put(start, report.clone()));
      copy.written = LISTS.copy(from.written);
      copy.touched = from.touched;
      copy.said = from.said;
      copy.changed = from.changed;
      copy.timer = from.timer;
      copy.idle = from.idle;
      return copy;
    }

    @Override
    public void write(Window window, DataOutputView out) throws IOException {
      out.writeInt(window.sums.stride());
      long[] sums = window.sums.toArray();
      Longs.write(sums, sums.length, out);
      out.writeLong(window.last);
      out.writeLong(window.ended);
      out.writeInt(window.reports.size());
      for (Map.Entry<Long, long[]> report : window.reports.entrySet()) {
        out.writeLong(report.getKey());
        Longs.write(report.getValue(), report.getValue().length, out);
      }
      LISTS.write(window.written, out);
      window.fields(Fields.to(out));
    }

    @Override
    protected Window read(DataInputView in, Form.Parts parts) throws IOException {
      Window window = new Window(in.readInt(), 0);
      long[] sums = Longs.read(in);
      window.sums.addAll(sums, 0, sums.length, 1);
      window.last = in.readLong();
      window.ended = in.readLong();
      for (int left = in.readInt(); left > 0; left--) {
        window.reports.put(in.readLong(), Longs.read(in));
      }
      window.written = Lists.read(in, parts);
      window.fields(parts.of("window", in));
      return window;
    }
  }
}
