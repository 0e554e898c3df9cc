package io.weir.jobs.topn;

import io.weir.jobs.topn.Window.Sums;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.metrics.Counter;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Adds up one bucket's flows for each window and probe, and hands its list on when it is time: a
 * probe's when all of the probe's workers have closed the window, the one over all when all probes
 * have, or {@code delay} after the window's end with what has come (for windows of the past: after
 * their first part came). What comes later is added, and the list is handed on again, at most every
 * {@link #AGAIN_MS}, until the window is {@link #KEEP_MS} old or makes room for newer ones.
 */
final class BucketFunction extends KeyedProcessFunction<Integer, TopnMessage, BucketTop> {
  private static final long serialVersionUID = 1;

  /** Least time between two lists of one window. */
  static final long AGAIN_MS = 5_000;

  /** For how long a window takes in what comes late. */
  static final long KEEP_MS = 300_000;

  /**
   * Five-tuples of finished windows that a bucket keeps for what comes late; the oldest windows go
   * first.
   */
  static final int KEEP_ENTRIES = 1_000_000 / Buckets.COUNT;

  private static final long TICK_MS = 1_000;

  private final long windowMs;
  private final long delayMs;
  private final int top;

  private transient MapState<Long, Window> windows;
  private transient ValueState<Progress> progress;
  private transient ValueState<Long> timer;
  private transient Counter late;

  BucketFunction(Duration window, Duration delay, int top) {
    windowMs = window.toMillis();
    delayMs = delay.toMillis();
    this.top = top;
  }

  @Override
  public void open(OpenContext context) {
    windows =
        getRuntimeContext()
            .getMapState(
                new MapStateDescriptor<>(
                    "windows", LongSerializer.INSTANCE, new Window.Serializer()));
    progress =
        getRuntimeContext()
            .getState(new ValueStateDescriptor<>("progress", new Progress.Serializer()));
    timer =
        getRuntimeContext().getState(new ValueStateDescriptor<>("timer", LongSerializer.INSTANCE));
    late = getRuntimeContext().getMetricGroup().addGroup("weir").counter("topn_too_late_flows");
  }

  @Override
  public void processElement(TopnMessage message, Context context, Collector<BucketTop> out)
      throws Exception {
    long now = context.timerService().currentProcessingTime();
    Progress known = progress.value();
    if (known == null) {
      known = new Progress();
      progress.update(known);
    }
    long[] data = message.data();
    switch (message.kind()) {
      case PART -> {
        if (known.isOver(message.probe(), message.window() / windowMs)) {
          late.inc((data.length - TopnMessage.ENTRIES) / FlowTable.STRIDE);
          return;
        }
        if (known.isOver("", message.window() / windowMs)) {
          late.inc((data.length - TopnMessage.ENTRIES) / FlowTable.STRIDE); // too late for that one
        }
        add(message, now);
      }
      case MARK -> {
        known.mark(message.probe(), (int) data[0], (int) data[1], data[2], data[3]);
        progress.update(known);
        tick(known, now, context.getCurrentKey(), out);
      }
      case ENROLLED -> {
        known.expected = (int) data[0];
        progress.update(known);
      }
    }
    schedule(context, now);
  }

  @Override
  public void onTimer(long timestamp, OnTimerContext context, Collector<BucketTop> out)
      throws Exception {
    long now = context.timerService().currentProcessingTime();
    timer.clear();
    tick(progress.value(), now, context.getCurrentKey(), out);
    schedule(context, now);
  }

  private void schedule(Context context, long now) throws Exception {
    if (timer.value() == null && !windows.isEmpty()) {
      long next = (now / TICK_MS + 1) * TICK_MS;
      timer.update(next);
      context.timerService().registerProcessingTimeTimer(next);
    }
  }

  private void add(TopnMessage message, long now) throws Exception {
    Window window = windows.get(message.window());
    if (window == null) {
      window = new Window();
      window.began = now;
    }
    window.touched = now;
    Sums sums = window.probes.computeIfAbsent(message.probe(), key -> new Sums());
    long[] data = message.data();
    sums.overflowPackets += data[0];
    sums.overflowOctets += data[1];
    sums.flows.addEntries(data, TopnMessage.ENTRIES, data.length);
    sums.said.changed = true;
    window.all.changed = true;
    windows.put(message.window(), window);
  }

  /** Hands on every list that is due, and drops windows that are over. */
  private void tick(Progress known, long now, int bucket, Collector<BucketTop> out)
      throws Exception {
    TreeMap<Long, Window> ordered = new TreeMap<>();
    for (Map.Entry<Long, Window> entry : windows.entries()) {
      ordered.put(entry.getKey(), entry.getValue());
    }
    int finished = 0;
    List<Long> droppable = new ArrayList<>();
    for (Map.Entry<Long, Window> entry : ordered.entrySet()) {
      long start = entry.getKey();
      long end = start + windowMs;
      Window window = entry.getValue();
      // A clock that is far ahead is not waited for.
      boolean ahead = end - window.began > windowMs + KEEP_MS;
      long whole = ahead ? window.began + windowMs : Math.max(end, window.began);
      boolean waited = now >= whole + delayMs;
      boolean said = false;
      boolean probesChanged = false;
      for (Map.Entry<String, Sums> probe : window.probes.entrySet()) {
        Sums sums = probe.getValue();
        boolean complete = known.complete(probe.getKey(), end);
        int reported = complete ? 1 : 0;
        if (sums.said.due(complete || waited, reported, now, AGAIN_MS)) {
          out.collect(list(probe.getKey(), start, bucket, reported, 1, List.of(sums)));
          sums.said.said(reported, now);
          said = true;
        }
        probesChanged |= sums.said.changed;
      }
      int reported = known.reported(end);
      boolean complete = known.expected > 0 && reported >= known.expected;
      if (known.isOver("", start / windowMs)) {
        // The list over all was of more than what has come since: it stays.
        if (waited && window.all.changed) {
          window.all.said(reported, now);
          said = true;
        }
      } else if (window.all.due(complete || waited, reported, now, AGAIN_MS)) {
        int expected = Math.max(known.expected, reported);
        out.collect(
            list("", start, bucket, reported, expected, List.copyOf(window.probes.values())));
        window.all.said(reported, now);
        said = true;
      }
      if (said) {
        windows.put(start, window);
      }
      if (window.all.at != 0 && !window.all.changed && !probesChanged) {
        if (now - window.touched >= KEEP_MS) {
          drop(start, window, known, now);
        } else {
          finished += window.entries();
          droppable.add(start);
        }
      }
    }
    for (long start : droppable) {
      if (finished <= KEEP_ENTRIES) {
        break;
      }
      finished -= ordered.get(start).entries();
      drop(start, ordered.get(start), known, now);
    }
  }

  /** Drops a window; one that is yet to come by the clock is not over for those who are on time. */
  private void drop(long start, Window window, Progress known, long now) throws Exception {
    if (start + windowMs <= now) {
      for (String probe : window.probes.keySet()) {
        known.setOver(probe, start / windowMs);
      }
      known.setOver("", start / windowMs);
      progress.update(known);
    }
    windows.remove(start);
  }

  private BucketTop list(
      String probe, long start, int bucket, int reported, int expected, List<Sums> parts) {
    FlowTable table;
    if (parts.size() == 1) {
      table = parts.get(0).flows;
    } else {
      table = new FlowTable();
      for (Sums part : parts) {
        table.addEntries(part.flows.cells(), 0, part.flows.size() * FlowTable.STRIDE);
      }
    }
    long octets = 0;
    long packets = 0;
    long overflow = 0;
    for (Sums part : parts) {
      octets += part.overflowOctets;
      packets += part.overflowPackets;
      overflow += part.overflowOctets;
    }
    long[] cells = table.cells();
    int end = table.size() * FlowTable.STRIDE;
    for (int at = 0; at < end; at += FlowTable.STRIDE) {
      octets += cells[at + FlowTable.FWD_OCTETS] + cells[at + FlowTable.REV_OCTETS];
      packets += cells[at + FlowTable.FWD_PACKETS] + cells[at + FlowTable.REV_PACKETS];
    }
    long[] entries = FlowTable.top(cells, table.size(), top);
    return new BucketTop(
        probe, start, bucket, reported, expected, octets, packets, table.size(), overflow, entries);
  }
}
