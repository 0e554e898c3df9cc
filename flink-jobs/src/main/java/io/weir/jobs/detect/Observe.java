package io.weir.jobs.detect;

import io.weir.jobs.message.Accepted;
import io.weir.jobs.message.Enrichment;
import io.weir.jobs.message.StreamClock;
import io.weir.jobs.metrics.Metric;
import io.weir.jobs.operator.FlushingOperator;
import io.weir.jobs.window.Buckets;
import io.weir.proto.Flow;
import io.weir.proto.FlowMessage;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.metrics.Counter;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Shows each record to the detectors as it comes, and sends what they gathered to the buckets of
 * its subjects: each second, and before each barrier.
 */
public final class Observe extends FlushingOperator<Accepted, Seen> {
  private static final long serialVersionUID = 1;

  static final String NAME = "detect-observe";

  private static final long FLUSH_MS = 1_000;

  /** Groups and handshakes that are gathered at most, of all probes. */
  private static final int MOST = 50_000;

  private static final Metric AHEAD =
      Metric.counter(
          "undetected_batches",
          NAME,
          "Batches that detectors did not see, as their interval is ahead of the broker's clock");
  static final List<Metric> METRICS = List.of(AHEAD);

  private record Key(String probe, long start, int length) {}

  private transient List<Detector<?>> detectors;
  private transient Look look;
  private transient Map<Key, Gathered> gathered;
  private transient TreeMap<String, Long> closed;
  private transient int size;
  private transient long flushed;
  private transient Counter ahead;

  @Override
  public void open() throws Exception {
    super.open();
    detectors = Detectors.all();
    look = new Look();
    gathered = new HashMap<>();
    closed = new TreeMap<>();
    ahead = AHEAD.register(getMetricGroup());
  }

  @Override
  public void processElement(StreamRecord<Accepted> element) {
    FlowMessage message = element.getValue().flow();
    if (message == null) {
      return;
    }
    long end = message.getIntervalStartMs() + message.getIntervalMs();
    long believed = StreamClock.closed(end, element.getValue().appended());
    if (message.hasClosing()) {
      closed.merge(message.getProbe(), believed, Math::max);
    } else if (message.hasBatch()) {
      if (believed < end) {
        ahead.inc();
      } else {
        see(message, element.getValue().enrichment());
      }
    }
    if (getProcessingTimeService().getCurrentProcessingTime() - flushed >= FLUSH_MS) {
      flush();
    }
  }

  private void see(FlowMessage message, Enrichment known) {
    Gathered into =
        gathered.computeIfAbsent(
            new Key(message.getProbe(), message.getIntervalStartMs(), message.getIntervalMs()),
            key -> new Gathered());
    int before = into.size();
    look.batch(message, known);
    int number = 0;
    for (Flow flow : message.getBatch().getFlowsList()) {
      look.at(flow, known, number++);
      for (Detector<?> detector : detectors) {
        detector.see(look, into);
      }
    }
    size += into.size() - before;
    if (size >= MOST) {
      flush();
    }
  }

  @Override
  protected void flush() {
    List<List<Seen.Part>> parts = new ArrayList<>();
    for (int i = 0; i < Buckets.COUNT; i++) {
      parts.add(new ArrayList<>());
    }
    gathered.forEach(
        (key, groups) -> {
          detectors.forEach(detector -> detector.complete(groups));
          long[][] taken = groups.take();
          for (int i = 0; i < taken.length; i++) {
            if (taken[i].length > 0) {
              parts.get(i).add(new Seen.Part(key.probe, key.start, key.length, taken[i]));
            }
          }
        });
    gathered.clear();
    size = 0;
    List<String> probes = List.copyOf(closed.keySet());
    long[] ends = closed.values().stream().mapToLong(end -> end).toArray();
    closed.clear();
    for (int i = 0; i < parts.size(); i++) {
      if (!parts.get(i).isEmpty() || ends.length > 0) {
        output.collect(new StreamRecord<>(new Seen(Buckets.id(i), parts.get(i), probes, ends)));
      }
    }
    flushed = getProcessingTimeService().getCurrentProcessingTime();
  }
}
