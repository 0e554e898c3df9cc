package io.weir.jobs.window;

import io.weir.jobs.serde.FieldSerializer;
import io.weir.jobs.table.TableRow;
import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.runtime.execution.SuppressRestartsException;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Merges the buckets' digests of one window and scope into rows: the first version when every
 * bucket has sent its digest, a further version shortly after a bucket has sent a new one. It keeps
 * the digests until every bucket has sent its last one.
 */
final class MergeFunction extends KeyedProcessFunction<String, Digest, TableRow> {
  private static final long serialVersionUID = 1;

  /** How long to wait for the other buckets after one has sent a new digest. */
  static final long SETTLE_MS = 2_000;

  /**
   * How many minutes digests are kept at most after the newest one, counted while the jobs run,
   * where the buckets do not say that it was the last one: a day, since the jobs may read slowly.
   */
  static final int KEEP_MINUTES = 1_440;

  static final long MINUTE_MS = 60_000;

  private final long windowMs;
  private final RowMaker maker;

  private transient MapState<Integer, Digest> parts;
  private transient ValueState<Lists> written;

  /** When to merge the digests again. */
  private transient ValueState<Long> mergeAt;

  /** When the next minute without a digest ends, and the minutes left then. */
  private transient ValueState<Long> minuteAt;

  private transient ValueState<Integer> minutesLeft;

  /** The buckets that send no more, one bit each. */
  private transient ValueState<Long> ended;

  MergeFunction(Duration window, RowMaker maker) {
    windowMs = window.toMillis();
    this.maker = maker;
  }

  /** Ends the job for good if an earlier version of the jobs added up other sums. */
  static void refuseOther(int stride, int own) {
    if (stride != own) {
      throw new SuppressRestartsException(
          new IOException(
              "this version of the jobs cannot read the state of windows: its sums are rows of %d numbers, not %d. Start the version that wrote it"
                  .formatted(stride, own)));
    }
  }

  /** The key by which digests are merged. */
  static String key(Digest digest) {
    return digest.window() + "/" + digest.probe();
  }

  @Override
  public void open(OpenContext context) {
    var runtime = getRuntimeContext();
    parts =
        runtime.getMapState(
            new MapStateDescriptor<>(
                "parts",
                IntSerializer.INSTANCE,
                new FieldSerializer<>(Digest.class, maker.form())));
    written = runtime.getState(new ValueStateDescriptor<>("written", new Lists.Serializer()));
    mergeAt = runtime.getState(new ValueStateDescriptor<>("merge-at", LongSerializer.INSTANCE));
    minuteAt = runtime.getState(new ValueStateDescriptor<>("minute-at", LongSerializer.INSTANCE));
    minutesLeft =
        runtime.getState(new ValueStateDescriptor<>("minutes-left", IntSerializer.INSTANCE));
    ended = runtime.getState(new ValueStateDescriptor<>("ended", LongSerializer.INSTANCE));
  }

  @Override
  public void processElement(Digest digest, Context context, Collector<TableRow> out)
      throws Exception {
    if (digest.last()) {
      end(digest.bucket(), out);
      return;
    }
    long now = context.timerService().currentProcessingTime();
    parts.put(digest.bucket(), digest);
    minutesLeft.update(KEEP_MINUTES);
    if (!isSet(minuteAt, now + MINUTE_MS)) {
      minuteAt.update(now + MINUTE_MS);
      context.timerService().registerProcessingTimeTimer(now + MINUTE_MS);
    }
    if (written.value() == null) {
      Map<Integer, Digest> all = all();
      if (all.size() == Buckets.COUNT) {
        merge(all, out);
      }
    } else if (!isSet(mergeAt, now + SETTLE_MS)) {
      mergeAt.update(now + SETTLE_MS);
      context.timerService().registerProcessingTimeTimer(now + SETTLE_MS);
    }
  }

  @Override
  public void onTimer(long timestamp, OnTimerContext context, Collector<TableRow> out)
      throws Exception {
    if (mergeAt.value() != null && timestamp >= mergeAt.value()) {
      mergeAt.clear();
      merge(all(), out);
    }
    if (minuteAt.value() == null || timestamp < minuteAt.value()) {
      return;
    }
    int left = minutesLeft.value() - 1;
    if (left == 0) {
      forget();
    } else {
      long next = context.timerService().currentProcessingTime() + MINUTE_MS;
      minutesLeft.update(left);
      minuteAt.update(next);
      context.timerService().registerProcessingTimeTimer(next);
    }
  }

  /** Whether a timer is set, by a clock that was not ahead. */
  private static boolean isSet(ValueState<Long> timer, long latest) throws IOException {
    return timer.value() != null && timer.value() <= latest;
  }

  private void end(int bucket, Collector<TableRow> out) throws Exception {
    long before = ended.value() == null ? 0 : ended.value();
    ended.update(before | Buckets.bit(bucket));
    if (ended.value() == Buckets.ALL) {
      if (mergeAt.value() != null) {
        merge(all(), out);
      }
      forget();
    }
  }

  /** Drops the state; timers that are set find nothing. */
  private void forget() {
    parts.clear();
    written.clear();
    mergeAt.clear();
    minuteAt.clear();
    minutesLeft.clear();
    ended.clear();
  }

  private Map<Integer, Digest> all() throws Exception {
    Map<Integer, Digest> all = new TreeMap<>();
    for (Map.Entry<Integer, Digest> entry : parts.entries()) {
      all.put(entry.getKey(), entry.getValue());
    }
    return all;
  }

  private void merge(Map<Integer, Digest> all, Collector<TableRow> out) throws Exception {
    int reported = Integer.MAX_VALUE;
    int expected = 0;
    Digest any = null;
    for (Digest part : all.values()) {
      any = part;
      reported = Math.min(reported, part.reported());
      expected = Math.max(expected, part.expected());
    }
    Lists lists = written.value() == null ? new Lists() : written.value();
    lists.write(
        maker.rows(all.values()), any.window(), windowMs, any.probe(), reported, expected, out);
    written.update(lists);
  }
}
