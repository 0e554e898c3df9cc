package io.weir.jobs.topn;

import io.weir.jobs.sink.Table;
import io.weir.jobs.sink.TableRow;
import java.nio.ByteBuffer;
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
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Merges the buckets' lists of one window and scope into rows of {@code top_flows}: the first time
 * when every bucket has given its list, later a moment after one of them has given another, with
 * the next version.
 */
final class MergeFunction extends KeyedProcessFunction<String, BucketTop, TableRow> {
  private static final long serialVersionUID = 1;

  /** Value of {@code scope}. */
  static final int SCOPE_PROBE = 1;

  static final int SCOPE_ALL = 2;

  /** How long the other buckets are waited for when one has given another list. */
  static final long SETTLE_MS = 2_000;

  private static final long KEEP_MS = BucketFunction.KEEP_MS + 60_000;

  private final int windowSeconds;
  private final int top;

  private transient MapState<Integer, BucketTop> parts;
  private transient ValueState<Integer> version;

  /** When the lists are to be merged again, 0 for not. */
  private transient ValueState<Long> mergeAt;

  /** When the window is forgotten. */
  private transient ValueState<Long> forgetAt;

  MergeFunction(Duration window, int top) {
    windowSeconds = (int) window.toSeconds();
    this.top = top;
  }

  /** What lists are merged by. */
  static String key(BucketTop list) {
    return list.window() + "/" + list.probe();
  }

  @Override
  public void open(OpenContext context) {
    var runtime = getRuntimeContext();
    parts =
        runtime.getMapState(
            new MapStateDescriptor<>("parts", IntSerializer.INSTANCE, new BucketTop.Serializer()));
    version = runtime.getState(new ValueStateDescriptor<>("version", IntSerializer.INSTANCE));
    mergeAt = runtime.getState(new ValueStateDescriptor<>("merge-at", LongSerializer.INSTANCE));
    forgetAt = runtime.getState(new ValueStateDescriptor<>("forget-at", LongSerializer.INSTANCE));
  }

  @Override
  public void processElement(BucketTop part, Context context, Collector<TableRow> out)
      throws Exception {
    long now = context.timerService().currentProcessingTime();
    parts.put(part.bucket(), part);
    if (forgetAt.value() == null) {
      context.timerService().registerProcessingTimeTimer(now + KEEP_MS);
    }
    forgetAt.update(now + KEEP_MS);
    if (version.value() == null) {
      Map<Integer, BucketTop> all = all();
      if (all.size() == Buckets.COUNT) {
        merge(all, out);
      }
    } else if (mergeAt.value() == null) {
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
    if (forgetAt.value() != null) {
      if (timestamp >= forgetAt.value()) {
        parts.clear();
        version.clear();
        forgetAt.clear();
      } else {
        context.timerService().registerProcessingTimeTimer(forgetAt.value());
      }
    }
  }

  private Map<Integer, BucketTop> all() throws Exception {
    Map<Integer, BucketTop> all = new TreeMap<>();
    for (Map.Entry<Integer, BucketTop> entry : parts.entries()) {
      all.put(entry.getKey(), entry.getValue());
    }
    return all;
  }

  private void merge(Map<Integer, BucketTop> all, Collector<TableRow> out) throws Exception {
    int number = version.value() == null ? 1 : version.value() + 1;
    version.update(number);
    long octets = 0;
    long packets = 0;
    long flows = 0;
    long overflow = 0;
    int reported = Integer.MAX_VALUE;
    int expected = 0;
    int length = 0;
    BucketTop any = null;
    for (BucketTop part : all.values()) {
      any = part;
      octets += part.octets();
      packets += part.packets();
      flows += part.flows();
      overflow += part.overflow();
      reported = Math.min(reported, part.reported());
      expected = Math.max(expected, part.expected());
      length += part.entries().length;
    }
    long[] cells = new long[length];
    int filled = 0;
    for (BucketTop part : all.values()) {
      System.arraycopy(part.entries(), 0, cells, filled, part.entries().length);
      filled += part.entries().length;
    }
    long[] best = FlowTable.top(cells, length / FlowTable.STRIDE, top);
    for (int rank = 1; rank * FlowTable.STRIDE <= best.length; rank++) {
      int at = (rank - 1) * FlowTable.STRIDE;
      long ports = best[at + 4];
      long fwdOctets = best[at + FlowTable.FWD_OCTETS];
      long fwdPackets = best[at + FlowTable.FWD_PACKETS];
      long revOctets = best[at + FlowTable.REV_OCTETS];
      long revPackets = best[at + FlowTable.REV_PACKETS];
      Object[] row = {
        any.window() / 1000,
        windowSeconds,
        any.probe().isEmpty() ? SCOPE_ALL : SCOPE_PROBE,
        any.probe(),
        rank,
        number,
        address(best[at], best[at + 1]),
        address(best[at + 2], best[at + 3]),
        ports >>> 32,
        ports >>> 16 & 0xffff,
        ports & 0xff,
        fwdOctets + revOctets,
        fwdPackets + revPackets,
        fwdOctets,
        fwdPackets,
        revOctets,
        revPackets,
        octets,
        packets,
        flows,
        overflow,
        reported,
        expected
      };
      out.collect(new TableRow(Table.TOP_FLOWS, row));
    }
  }

  private static byte[] address(long high, long low) {
    return ByteBuffer.allocate(16).putLong(high).putLong(low).array();
  }
}
