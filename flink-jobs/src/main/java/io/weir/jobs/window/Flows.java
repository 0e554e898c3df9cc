package io.weir.jobs.window;

import io.weir.jobs.message.Enrichment;
import java.util.Arrays;
import java.util.List;

/**
 * A bucket's flows of one window: those of one probe, or over all probes with each flow as one of
 * them saw it.
 *
 * <p><b>One flow, many observers.</b> If several probes saw a flow, in either direction, one of
 * them counts: preferably one that sees both directions, then the one that sampled the most
 * packets, then the one nearest to the source (at its site, then at the destination's), then the
 * one with the lowest rank, then the first by name. If only probes that see one direction saw it,
 * each direction comes from the best probe that saw it. Overflow records do not name their flows:
 * all of them count.
 */
public final class Flows {
  private final FlowTable table = new FlowTable();
  private final Coarse coarse = new Coarse();
  private final Attempts attempts = new Attempts();
  private final long[] entry = new long[FlowTable.STRIDE];
  private final Hosts hosts = new Hosts();
  private boolean hostsLoaded;

  private long[] cells = {};
  private int size;
  private boolean national;
  private int bucket;
  private long duplicateOctets;
  private long errorOctets;
  private long[] sketches = {};

  private FlowCursor one;
  private FlowCursor other;
  private int[] observers = {};
  private int[] ranks = {};
  private int[] slots = {};
  private int[] next = {};

  /** The flows, each once. */
  public FlowCursor cursor() {
    return new FlowCursor(cells, size, bucket, national);
  }

  /** Whether a flow's key comes before another's: an order that does not depend on arrival. */
  public boolean before(int a, int b) {
    return Cells.before(cells, a * FlowTable.STRIDE, b * FlowTable.STRIDE, FlowTable.KEY);
  }

  /** Number of flows. */
  public int size() {
    return size;
  }

  /** Whether these are the flows of all probes. */
  public boolean national() {
    return national;
  }

  /** Layer-3 octets that were left out because another probe saw the same flow. */
  public long duplicateOctets() {
    return duplicateOctets;
  }

  /**
   * Upper bound of the octets that a flow's count lacks because memory was insufficient; a missing
   * flow has at most as many. 0: all counts are exact.
   */
  public long errorOctets() {
    return errorOctets;
  }

  /** Sketches of overflow records, one row for each host and protocol, see {@link Sketches}. */
  public long[] sketches() {
    return sketches;
  }

  /** Attempts to open TCP connections to judge with this window. */
  public Attempts attempts() {
    return attempts;
  }

  /** The hosts of the flows that belong to this bucket. */
  public Hosts hosts() {
    if (!hostsLoaded) {
      hosts.load(cursor(), size, bucket, attempts);
      hostsLoaded = true;
    }
    return hosts;
  }

  /**
   * Adds the received data.
   *
   * @param logs the flows that each probe saw, for one probe or for all
   * @param late the attempts that the previous window deferred, see {@link Attempts}
   * @param edgeMs this window judges attempts seen up to this many ms after its start
   */
  void load(
      int bucketNumber, boolean overAll, List<WindowState.Log> logs, long[] late, long edgeMs) {
    bucket = bucketNumber;
    national = overAll;
    duplicateOctets = 0;
    errorOctets = 0;
    sketches = sketches(logs);
    attempts.begin(edgeMs, bucket, late);
    for (WindowState.Log log : logs) {
      errorOctets += log.errorOctets;
    }
    if (!overAll && !logs.get(0).isCompact()) {
      fill(logs.get(0));
      attempts.add(table.cells(), 0, table.size());
      cells = table.cells();
      size = table.size();
    } else {
      begin();
      ranks = new int[logs.size()];
      for (int number = 0; number < ranks.length; number++) {
        WindowState.Log log = logs.get(number);
        ranks[number] = log.rank;
        int before = size;
        if (log.isCompact()) {
          append(log, number);
        } else {
          fill(log);
          append(table, number);
        }
        attempts.add(cells, before, size);
      }
    }
    attempts.answer(cells, size, logs.size() > 1);
    if (logs.size() > 1) {
      leaveOutDuplicates();
    }
    hostsLoaded = false;
  }

  private void fill(WindowState.Log log) {
    table.clear();
    for (long[] chunk : log.chunks) {
      for (int at = 0; at < chunk.length; ) {
        at = Packed.read(chunk, at, entry);
        table.add(entry, 0);
      }
    }
  }

  /**
   * Adds up the entries of a probe, so that each flow is one entry; if more than {@code limit}
   * remain, aggregates all but the largest.
   */
  void compact(WindowState.Log log, int ofBucket, int limit) {
    if (!log.isCompact()) {
      fill(log);
      if (table.size() <= limit) {
        keep(log, packed());
        return;
      }
      coarse.load(table.cells(), table.size(), ofBucket, limit);
    } else if (log.entries > limit) {
      begin();
      append(log, 0);
      coarse.load(cells, size, ofBucket, limit);
    } else {
      return;
    }
    keep(log, coarse.kept());
    log.addSketches(coarse.sketches());
    log.errorOctets += coarse.largest();
  }

  /** Stores the loaded flows of one probe again, each as one entry. */
  void settle(WindowState.Log log) {
    if (!log.isCompact()) {
      keep(log, packed());
    }
  }

  private Packed packed() {
    Packed packed = new Packed();
    for (int i = 0; i < table.size(); i++) {
      packed.add(table.cells(), i * FlowTable.STRIDE);
    }
    return packed;
  }

  private static void keep(WindowState.Log log, Packed flows) {
    log.entries = flows.entries();
    log.compacted = log.entries;
    log.chunks.clear();
    log.chunks.add(flows.take());
  }

  /** Makes room for flows to append. */
  private void begin() {
    if (cells == table.cells()) {
      cells = new long[0];
    }
    size = 0;
  }

  private void append(WindowState.Log log, int observer) {
    int end = size + log.entries;
    reserve(end);
    for (long[] chunk : log.chunks) {
      for (int at = 0, to = size * FlowTable.STRIDE; at < chunk.length; to += FlowTable.STRIDE) {
        at = Packed.read(chunk, at, cells, to);
      }
    }
    Arrays.fill(observers, size, end, observer);
    size = end;
  }

  private void append(FlowTable from, int observer) {
    int end = size + from.size();
    reserve(end);
    System.arraycopy(
        from.cells(), 0, cells, size * FlowTable.STRIDE, from.size() * FlowTable.STRIDE);
    Arrays.fill(observers, size, end, observer);
    size = end;
  }

  private void reserve(int entries) {
    if (cells.length < entries * FlowTable.STRIDE) {
      cells = Arrays.copyOf(cells, Math.max(entries, 2 * size) * FlowTable.STRIDE);
    }
    if (observers.length < entries) {
      observers = Arrays.copyOf(observers, Math.max(entries, 2 * size));
    }
  }

  private static long[] sketches(List<WindowState.Log> logs) {
    int length = 0;
    for (WindowState.Log log : logs) {
      length += log.sketches.length;
    }
    long[] all = new long[length];
    int filled = 0;
    for (WindowState.Log log : logs) {
      System.arraycopy(log.sketches, 0, all, filled, log.sketches.length);
      filled += log.sketches.length;
    }
    return length == 0 ? all : Sketches.merge(all);
  }

  // ---- one flow, many observers ----

  private void leaveOutDuplicates() {
    int capacity = Math.max(16, Integer.highestOneBit(size) * 4);
    if (slots.length < capacity) {
      slots = new int[capacity];
    } else {
      Arrays.fill(slots, 0, capacity, 0);
    }
    if (next.length < size) {
      next = new int[Math.max(size, 2 * next.length)];
    }
    one = cursor();
    other = cursor();
    int mask = capacity - 1;
    for (int i = 0; i < size; i++) {
      next[i] = -1;
      int at = i * FlowTable.STRIDE;
      if (one.seek(i).isOverflow()) {
        continue;
      }
      int slot = FlowTable.hashOfBoth(cells, at) & mask;
      while (slots[slot] != 0
          && !FlowTable.sameFlow(cells, (slots[slot] - 1) * FlowTable.STRIDE, at)) {
        slot = slot + 1 & mask;
      }
      next[i] = slots[slot] - 1;
      slots[slot] = i + 1;
    }
    // Each slot now begins a list of all entries of one flow. A negative observer marks an entry
    // that does not count.
    for (int slot = 0; slot < capacity; slot++) {
      int first = slots[slot] - 1;
      if (first >= 0 && next[first] >= 0) {
        choose(first);
      }
    }
    int kept = 0;
    for (int i = 0; i < size; i++) {
      int at = i * FlowTable.STRIDE;
      if (observers[i] >= 0) {
        if (kept != i) {
          System.arraycopy(cells, at, cells, kept * FlowTable.STRIDE, FlowTable.STRIDE);
        }
        kept++;
      } else if (one.seek(i).isOwned()) {
        duplicateOctets += one.octets();
      }
    }
    size = kept;
  }

  private void choose(int first) {
    int best = first;
    for (int i = next[first]; i >= 0; i = next[i]) {
      if (better(i, best)) {
        best = i;
      }
    }
    int observer = observers[best];
    if (one.seek(best).isOneWay()) {
      joinDirections(first, best);
    }
    for (int i = first; i >= 0; i = next[i]) {
      if (observers[i] != observer) {
        observers[i] = -1 - observers[i];
      }
    }
  }

  private boolean better(int a, int b) {
    one.seek(a);
    other.seek(b);
    if (one.isOneWay() != other.isOneWay()) {
      return !one.isOneWay();
    }
    if (one.samplingRate() != other.samplingRate()) {
      return one.samplingRate() < other.samplingRate();
    }
    if (one.is(Enrichment.SRC_AT_SITE) != other.is(Enrichment.SRC_AT_SITE)) {
      return one.is(Enrichment.SRC_AT_SITE);
    }
    if (one.is(Enrichment.DST_AT_SITE) != other.is(Enrichment.DST_AT_SITE)) {
      return one.is(Enrichment.DST_AT_SITE);
    }
    int observerA = observers[a];
    int observerB = observers[b];
    if (ranks[observerA] != ranks[observerB]) {
      return ranks[observerA] < ranks[observerB];
    }
    return observerA < observerB;
  }

  /**
   * Completes the best entry with the direction that it did not see, from the best probe that saw
   * it.
   */
  private void joinDirections(int first, int best) {
    int at = best * FlowTable.STRIDE;
    for (int direction = 0; direction < 2; direction++) {
      boolean forward = direction == 0;
      if (one.seek(best).packetsSent(forward) != 0) {
        continue;
      }
      int found = -1;
      for (int i = first; i >= 0; i = next[i]) {
        boolean same = FlowTable.sameDirection(cells, i * FlowTable.STRIDE, at);
        if (observers[i] != observers[best]
            && one.seek(i).packetsSent(forward == same) != 0
            && (found < 0 || better(i, found))) {
          found = i;
        }
      }
      if (found >= 0) {
        int from = found * FlowTable.STRIDE;
        boolean fromForward = forward == FlowTable.sameDirection(cells, from, at);
        if (one.seek(best).isOwned()) { // it will be among what is left out, which this is not
          duplicateOctets -= one.seek(found).octetsSent(fromForward);
        }
        FlowTable.join(cells, at, forward, from, fromForward);
      }
    }
  }
}
