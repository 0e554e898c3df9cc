package io.weir.jobs.window;

import com.google.protobuf.ByteString;
import io.weir.jobs.message.Accepted;
import io.weir.jobs.message.Addresses;
import io.weir.jobs.message.Enrichment;
import io.weir.jobs.message.RawMessage;
import io.weir.jobs.message.StreamClock;
import io.weir.jobs.operator.FlushingOperator;
import io.weir.proto.ClosingRecord;
import io.weir.proto.Flow;
import io.weir.proto.FlowMessage;
import io.weir.proto.RecordKind;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Sends those fields of each record that windows need to the buckets of its two addresses. It does
 * so when enough records have accumulated, and before the mark that it sends for a closing record
 * that ends a window.
 */
final class Scatter extends FlushingOperator<Accepted, WindowMessage> {
  private static final long serialVersionUID = 1;
  private static final int MAX_ENTRIES = 20_000;
  private static final int TCP = 6;
  private static final int MAX_SPARE = 16;
  private static final int MAX_WORKERS = 100_000;
  private static final long[] NONE = {};

  /** Maximum time between two deliveries of read data to the buckets, while messages arrive. */
  private static final long FLUSH_MS = 1_000;

  /** Upper limit of packet counts, so that the sum of two of them still fits. */
  private static final long MAX_COUNT = (1 << 28) - 1;

  private record Key(String probe, long window) {}

  /** How far the messages of a worker were read: the newest one, and when it arrived. */
  private record Position(String probe, int worker, long offset, long appended) {}

  private static final class Parts {
    final Packed[] buckets = new Packed[Buckets.COUNT];
    final long[][] sketches = new long[Buckets.COUNT][];
    int rank;
    long appended = RawMessage.NO_TIME;

    Parts() {
      for (int i = 0; i < Buckets.COUNT; i++) {
        buckets[i] = new Packed();
        sketches[i] = NONE;
      }
    }

    void sketch(int bucket, long[] row) {
      long[] before = sketches[bucket];
      long[] after = Arrays.copyOf(before, before.length + row.length);
      System.arraycopy(row, 0, after, before.length, row.length);
      sketches[bucket] = after;
    }
  }

  private final long windowMs;

  /** Buckets that receive marks, one in each subtask. */
  private transient int[] markedBuckets;

  private transient Map<Key, Parts> parts;
  private transient ArrayDeque<Parts> spare;
  private transient int entries;
  private transient long[] entry;

  /**
   * End of the last window for which a mark was sent, by probe and worker; a restart loses it, at
   * the cost of one more mark.
   */
  private transient Map<String, Long> marked;

  /** The newest messages that were read since the last flush, by probe and worker. */
  private transient Map<String, Position> read;

  private transient long flushed;

  Scatter(Duration window) {
    windowMs = window.toMillis();
  }

  @Override
  public void open() throws Exception {
    super.open();
    markedBuckets = Buckets.oneOfEach(getRuntimeContext());
    parts = new HashMap<>();
    spare = new ArrayDeque<>();
    marked = new HashMap<>();
    read = new HashMap<>();
    entries = 0;
    entry = new long[FlowTable.STRIDE];
  }

  @Override
  public void processElement(StreamRecord<Accepted> element) {
    FlowMessage message = element.getValue().flow();
    if (message == null) {
      return;
    }
    long offset = element.getValue().offset();
    long appended = element.getValue().appended();
    String worker = message.getProbe() + '/' + message.getWorker();
    read.put(worker, new Position(message.getProbe(), message.getWorker(), offset, appended));
    if (message.hasClosing()) {
      close(message, message.getClosing(), worker, appended);
    } else if (message.hasBatch()) {
      add(message, element.getValue().enrichment(), appended);
    }
    if (getProcessingTimeService().getCurrentProcessingTime() - flushed >= FLUSH_MS) {
      flush();
    }
  }

  private void add(FlowMessage message, Enrichment known, long appended) {
    long start = message.getIntervalStartMs();
    long window = Math.floorDiv(start, windowMs) * windowMs;
    Parts into =
        parts.computeIfAbsent(
            new Key(message.getProbe(), window),
            key -> spare.isEmpty() ? new Parts() : spare.pop());
    into.rank = known.rank;
    into.appended = Math.max(into.appended, appended);
    int number = 0;
    for (Flow flow : message.getBatch().getFlowsList()) {
      fill(flow, known, number++, start - window);
      int key = FlowTable.overflowKey(entry[FlowTable.TUPLE]);
      int src = key < 2 ? Buckets.of(entry[FlowTable.SRC], entry[FlowTable.SRC + 1]) : -1;
      int dst =
          key == 0 || key == 2 ? Buckets.of(entry[FlowTable.DST], entry[FlowTable.DST + 1]) : -1;
      if (key == FlowTable.PROTOCOL) {
        src = 0;
      }
      if (src >= 0) {
        into.buckets[src].add(entry, 0);
        entries++;
      }
      if (dst >= 0 && dst != src) {
        if (src >= 0) {
          into.buckets[dst].addLastOf(into.buckets[src]);
        } else {
          into.buckets[dst].add(entry, 0);
        }
        entries++;
      }
      if (key == 1 || key == 2) {
        int address = key == 1 ? FlowTable.SRC : FlowTable.DST;
        long[] row =
            Sketches.row(
                entry[address],
                entry[address + 1],
                flow.getProtocol(),
                flow.getOverflow().getDistinctSketch());
        if (row != null && key == 1) {
          into.sketch(src, row);
        }
      }
    }
    if (entries >= MAX_ENTRIES) {
      flush();
    }
  }

  /** Sets {@link #entry} to the fields of a record that windows need. */
  private void fill(Flow flow, Enrichment known, int number, long intervalOffset) {
    int overflowKey = 0;
    int flags = known.ends[number];
    if (flow.getRecordKind() == RecordKind.RECORD_KIND_OVERFLOW) {
      int said = flow.getOverflow().getKeyValue();
      overflowKey = said == 1 || said == 2 ? said : 3;
    }
    ByteString src = flow.getSrcAddr();
    ByteString dst = flow.getDstAddr();
    entry[0] = Addresses.high(src);
    entry[1] = Addresses.low(src);
    entry[2] = Addresses.high(dst);
    entry[3] = Addresses.low(dst);
    entry[FlowTable.TUPLE] =
        FlowTable.tuple(flow.getSrcPort(), flow.getDstPort(), flow.getProtocol(), overflowKey);
    if (overflowKey != 0 && flow.getIpVersion() == 6) {
      entry[FlowTable.TUPLE] |= FlowTable.OVERFLOW_IPV6;
    }
    entry[FlowTable.FWD_OCTETS] = flow.getFwdOctets();
    entry[FlowTable.FWD_PACKETS] = flow.getFwdPackets();
    entry[FlowTable.REV_OCTETS] = flow.getRevOctets();
    entry[FlowTable.REV_PACKETS] = flow.getRevPackets();
    entry[FlowTable.SYN] = both(flow.getFwdTcpSyn(), flow.getRevTcpSyn());
    entry[FlowTable.SYNACK] = both(flow.getFwdTcpSynack(), flow.getRevTcpSynack());
    entry[FlowTable.FIN] = both(flow.getFwdTcpFin(), flow.getRevTcpFin());
    entry[FlowTable.RST] = both(flow.getFwdTcpRst(), flow.getRevTcpRst());
    entry[FlowTable.ICMP_ERRORS] = both(flow.getFwdIcmpErrors(), flow.getRevIcmpErrors());
    if (entry[FlowTable.ICMP_ERRORS] != 0 && flow.getProtocol() != TCP) {
      entry[FlowTable.ICMP_ERRORS_UDP] =
          both(flow.getFwdIcmpErrorsUdp(), flow.getRevIcmpErrorsUdp());
    }
    entry[FlowTable.AS] = (long) known.srcAs[number] << 32 | (known.dstAs[number] & 0xffffffffL);
    entry[FlowTable.CUSTOMER] =
        (long) known.srcCustomer[number] << 32 | (known.dstCustomer[number] & 0xffffffffL);
    if (flow.getInitiatorGuess()) {
      flags |= FlowTable.GUESS;
      flags |=
          overflowKey == 0 && isServiceAtSource(flow, known.service[number])
              ? FlowTable.SERVICE_AT_SOURCE
              : 0;
    }
    flags |= flow.getIpVersion() == 6 ? FlowTable.IPV6 : 0;
    flags |= known.oneWay ? FlowTable.ONE_WAY : 0;
    entry[FlowTable.ATTRIBUTES] =
        (long) flow.getApplicationId() << 48
            | (known.srcCountry[number] & 0xffffL) << 32
            | (known.dstCountry[number] & 0xffffL) << 16
            | flags;
    entry[FlowTable.SEEN] =
        FlowTable.seen(
            intervalOffset + flow.getFirstSeenOffsetMs(),
            flow.getFlowAgeMs() == 0 && overflowKey == 0,
            flow.getSamplingRate());
  }

  /**
   * Whether the service is at the source of a flow with a guessed initiator: the registered port,
   * else the lower one.
   */
  private static boolean isServiceAtSource(Flow flow, short registered) {
    int service = registered & 0xffff;
    return service != 0
        ? service != flow.getDstPort()
        : flow.getSrcPort() < flow.getDstPort() && flow.getSrcPort() != 0;
  }

  private static long both(long forward, long reverse) {
    return (forward | reverse) == 0 ? 0 : cut(forward) << 32 | cut(reverse);
  }

  private static long cut(long count) {
    return (count & ~MAX_COUNT) == 0 ? count : MAX_COUNT;
  }

  private void close(FlowMessage message, ClosingRecord closing, String worker, long appended) {
    long end = StreamClock.closed(message.getIntervalStartMs() + message.getIntervalMs(), appended);
    // After its last interval a worker adds nothing more to the window in which it stopped.
    long until =
        closing.getLast()
            ? -Math.floorDiv(-end, windowMs) * windowMs
            : Math.floorDiv(end, windowMs) * windowMs;
    Long known = marked.put(worker + '/' + message.getEpoch(), until);
    if (known != null && known >= until) {
      return;
    }
    if (marked.size() > MAX_WORKERS) {
      marked.clear();
    }
    flush();
    for (int bucket : markedBuckets) {
      emit(
          WindowMessage.mark(
              bucket,
              message.getProbe(),
              message.getWorker(),
              closing.getWorkers(),
              message.getEpoch(),
              until,
              appended,
              closing.getLast() ? 1 : 0));
    }
  }

  /**
   * Sends what was read, and how far. Every bucket receives a message about every window with data,
   * so that all agree on which windows exist.
   */
  @Override
  protected void flush() {
    for (Map.Entry<Key, Parts> part : parts.entrySet()) {
      Key key = part.getKey();
      Parts from = part.getValue();
      for (int i = 0; i < Buckets.COUNT; i++) {
        int count = from.buckets[i].entries();
        emit(
            new WindowMessage(
                WindowMessage.Kind.PART,
                Buckets.IDS[i],
                key.probe,
                key.window,
                from.appended,
                count,
                from.rank,
                from.buckets[i].take(),
                from.sketches[i]));
        from.sketches[i] = NONE;
      }
      from.appended = RawMessage.NO_TIME;
      if (spare.size() < MAX_SPARE) {
        spare.push(from);
      }
    }
    parts.clear();
    entries = 0;
    // Only now, so that windows cannot end before they have the data read.
    for (Position position : read.values()) {
      for (int bucket : markedBuckets) {
        emit(
            WindowMessage.read(
                bucket, position.probe, position.worker, position.offset, position.appended));
      }
    }
    read.clear();
    flushed = getProcessingTimeService().getCurrentProcessingTime();
  }

  private void emit(WindowMessage message) {
    output.collect(new StreamRecord<>(message));
  }
}
