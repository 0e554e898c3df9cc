package io.weir.jobs.topn;

import com.google.protobuf.ByteString;
import io.weir.jobs.source.Accepted;
import io.weir.proto.ClosingRecord;
import io.weir.proto.Flow;
import io.weir.proto.FlowMessage;
import io.weir.proto.RecordKind;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Adds up records where they are read, so that less has to cross to the buckets. Holds no state: it
 * hands on what it has before a checkpoint's barrier, when it is full, and before a closing record
 * that ends a window, which follows as a mark.
 */
final class Combiner extends AbstractStreamOperator<TopnMessage>
    implements OneInputStreamOperator<Accepted, TopnMessage> {
  private static final long serialVersionUID = 1;
  private static final int MAX_ENTRIES = 50_000;
  private static final long IPV4_MAPPED = 0xffffL << 32;

  private record Key(String probe, long window) {}

  private static final class Sums {
    final FlowTable flows = new FlowTable();
    long overflowPackets;
    long overflowOctets;
  }

  private final long windowMs;
  private transient Map<Key, Sums> sums;
  private transient int entries;

  /**
   * End of the last window that a worker was marked for, by probe and worker; lost on a restart,
   * which costs a mark.
   */
  private transient Map<String, Long> marked;

  Combiner(Duration window) {
    windowMs = window.toMillis();
  }

  @Override
  public void open() throws Exception {
    super.open();
    sums = new HashMap<>();
    marked = new HashMap<>();
    entries = 0;
  }

  @Override
  public void processElement(StreamRecord<Accepted> element) {
    FlowMessage message = element.getValue().flow();
    if (message == null) {
      return;
    }
    if (message.hasClosing()) {
      close(message, message.getClosing());
    } else {
      add(message);
    }
  }

  private void add(FlowMessage message) {
    long window = Math.floorDiv(message.getIntervalStartMs(), windowMs) * windowMs;
    Sums into = sums.computeIfAbsent(new Key(message.getProbe(), window), key -> new Sums());
    FlowTable table = into.flows;
    int before = table.size();
    for (Flow flow : message.getBatch().getFlowsList()) {
      if (flow.getRecordKind() == RecordKind.RECORD_KIND_OVERFLOW) {
        into.overflowPackets += flow.getFwdPackets() + flow.getRevPackets();
        into.overflowOctets += flow.getFwdOctets() + flow.getRevOctets();
      } else {
        ByteString src = flow.getSrcAddr();
        ByteString dst = flow.getDstAddr();
        table.add(
            high(src),
            low(src),
            high(dst),
            low(dst),
            FlowTable.ports(flow.getSrcPort(), flow.getDstPort(), flow.getProtocol()),
            flow.getFwdOctets(),
            flow.getFwdPackets(),
            flow.getRevOctets(),
            flow.getRevPackets());
      }
    }
    entries += table.size() - before;
    if (entries >= MAX_ENTRIES) {
      flush();
    }
  }

  private void close(FlowMessage message, ClosingRecord closing) {
    long end = message.getIntervalStartMs() + message.getIntervalMs();
    // After its last interval a worker has nothing to add to the window that it stopped in.
    long until =
        closing.getLast()
            ? -Math.floorDiv(-end, windowMs) * windowMs
            : Math.floorDiv(end, windowMs) * windowMs;
    String worker = message.getProbe() + '/' + message.getWorker() + '/' + message.getEpoch();
    Long known = marked.put(worker, until);
    if (known != null && known >= until) {
      return;
    }
    if (marked.size() > 100_000) {
      marked.clear();
    }
    flush();
    long[] data = {message.getWorker(), closing.getWorkers(), message.getEpoch(), until};
    for (int bucket : Buckets.IDS) {
      emit(new TopnMessage(TopnMessage.Kind.MARK, bucket, message.getProbe(), 0, data));
    }
  }

  @Override
  public void prepareSnapshotPreBarrier(long checkpointId) {
    flush();
  }

  @Override
  public void finish() {
    flush();
  }

  /**
   * Every bucket hears of every window that there is something of, so that all agree on which
   * windows there are.
   */
  private void flush() {
    for (Map.Entry<Key, Sums> entry : sums.entrySet()) {
      FlowTable table = entry.getValue().flows;
      long[] cells = table.cells();
      int[] counts = new int[Buckets.COUNT];
      int end = table.size() * FlowTable.STRIDE;
      for (int at = 0; at < end; at += FlowTable.STRIDE) {
        counts[Buckets.of(cells, at)]++;
      }
      long[][] parts = new long[Buckets.COUNT][];
      for (int i = 0; i < Buckets.COUNT; i++) {
        parts[i] = new long[TopnMessage.ENTRIES + counts[i] * FlowTable.STRIDE];
      }
      Arrays.fill(counts, TopnMessage.ENTRIES);
      for (int at = 0; at < end; at += FlowTable.STRIDE) {
        int i = Buckets.of(cells, at);
        System.arraycopy(cells, at, parts[i], counts[i], FlowTable.STRIDE);
        counts[i] += FlowTable.STRIDE;
      }
      parts[0][0] = entry.getValue().overflowPackets;
      parts[0][1] = entry.getValue().overflowOctets;
      Key key = entry.getKey();
      for (int i = 0; i < Buckets.COUNT; i++) {
        emit(
            new TopnMessage(
                TopnMessage.Kind.PART, Buckets.IDS[i], key.probe, key.window, parts[i]));
      }
    }
    sums.clear();
    entries = 0;
  }

  private void emit(TopnMessage message) {
    output.collect(new StreamRecord<>(message));
  }

  private static long high(ByteString address) {
    return address.size() == 16 ? bytes(address, 0, 8) : 0;
  }

  private static long low(ByteString address) {
    return switch (address.size()) {
      case 4 -> IPV4_MAPPED | bytes(address, 0, 4);
      case 16 -> bytes(address, 8, 16);
      default -> 0;
    };
  }

  private static long bytes(ByteString address, int from, int to) {
    long value = 0;
    for (int i = from; i < to; i++) {
      value = (value << 8) | (address.byteAt(i) & 0xff);
    }
    return value;
  }
}
