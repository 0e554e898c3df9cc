package io.weir.jobs.window;

import io.weir.jobs.message.Enrichment;
import java.util.Arrays;

/**
 * Gives up detail if a bucket holds more flows than allowed: it keeps the largest flows by octets
 * and adds the others up, as the agent does beyond its own bound. Packets that a host of the bucket
 * sent are summed by (source, port), those that it received by (destination, port); if there are
 * too many such sums, the smallest are folded by protocol alone. Packets, octets and SYNs stay
 * exact.
 *
 * <p>If many flows of a host were aggregated, a sketch estimates the number of their distinct
 * destinations ({@link Sketches}, by {@link SecretHash}). A folded flow may reappear and then lacks
 * its earlier counts, each time at most those of the largest folded flow.
 */
final class Coarse {
  /**
   * Minimum number of aggregated flows of one host and protocol for a sketch to count their
   * destinations.
   */
  private static final int SKETCH_FROM = 64;

  private final Packed kept = new Packed();
  private final FlowTable coarse = new FlowTable();
  private final FlowTable folded = new FlowTable();
  private final long[] entry = new long[FlowTable.STRIDE];
  private int bucket;
  private long largest;
  private long[] sketches;

  /** The remaining flows, and the sums of the others. */
  Packed kept() {
    return kept;
  }

  /** Octets of the largest flow that was aggregated. */
  long largest() {
    return largest;
  }

  /** Sketches of the destinations of aggregated flows, as in {@link Sketches}. */
  long[] sketches() {
    return sketches;
  }

  /** Aggregates flows, one entry each, so that at most about {@code limit} are left. */
  void load(long[] cells, int size, int ofBucket, int limit) {
    bucket = ofBucket;
    coarse.clear();
    folded.clear();
    long least = nth(cells, size, true, limit * 3 / 4);
    largest = 0;
    Sums went = new Sums(1);
    FlowCursor flow = new FlowCursor(cells).over(cells, size);
    while (flow.next()) {
      if (flow.isOverflow()) {
        coarse.add(cells, flow.place());
      } else if (flow.octets() >= least) {
        kept.add(cells, flow.place());
      } else {
        largest = Math.max(largest, flow.octets());
        both(flow, cells);
        if (flow.isIn(bucket, true)) {
          went.add(flow.high(true), host(flow), 0, 1);
        }
      }
    }
    sketch(cells, size, least, went);
    long leastCoarse = nth(coarse.cells(), coarse.size(), false, limit / 4);
    long[] added = coarse.cells();
    flow.over(added, coarse.size());
    while (flow.next()) {
      if (flow.namesPort() && flow.octets() < leastCoarse) {
        protocol(added, flow.place());
      } else {
        folded.add(added, flow.place());
      }
    }
    for (int i = 0; i < folded.size(); i++) {
      kept.add(folded.cells(), i * FlowTable.STRIDE);
    }
  }

  /** Octets that about {@code count} of the flows, or of the overflow records, have at least. */
  private static long nth(long[] cells, int size, boolean flows, int count) {
    long[] values = new long[size];
    int length = 0;
    FlowCursor flow = new FlowCursor(cells).over(cells, size);
    while (flow.next()) {
      if (flow.isOverflow() != flows) {
        values[length++] = flow.octets();
      }
    }
    // Entries with equal octets all go or all stay: better too few than too many.
    return length <= count ? Long.MIN_VALUE : select(values, length, length - count - 1) + 1;
  }

  /**
   * The value at position {@code rank} in descending order of octets; no order of the input makes
   * this slow. Values must not be negative; their order changes.
   */
  private static long select(long[] values, int length, int rank) {
    int[] counts = new int[256];
    int left = length;
    int before = rank;
    for (int shift = Long.SIZE - 8; shift >= 0 && left > 1; shift -= 8) {
      Arrays.fill(counts, 0);
      for (int i = 0; i < left; i++) {
        counts[(int) (values[i] >>> shift) & 0xff]++;
      }
      int octet = 0;
      while (before >= counts[octet]) {
        before -= counts[octet++];
      }
      int same = 0;
      for (int i = 0; counts[octet] < left && i < left; i++) {
        if (((int) (values[i] >>> shift) & 0xff) == octet) {
          values[same++] = values[i];
        }
      }
      left = counts[octet];
    }
    return values[0];
  }

  /** The low 64 bits of the source, mixed with the protocol: a key that suffices for counting. */
  private static long host(FlowCursor flow) {
    return flow.low(true) ^ (long) flow.protocol() << 48;
  }

  /** Adds the traffic of both ends of a flow, for each end that is in this bucket. */
  private void both(FlowCursor flow, long[] cells) {
    boolean owned = Buckets.owner(cells, flow.place()) == bucket;
    boolean src = flow.isIn(bucket, true);
    if (src) {
      oneWay(flow, cells, true, true, owned);
      oneWay(flow, cells, true, false, owned);
    }
    if (flow.isIn(bucket, false)) {
      oneWay(flow, cells, false, true, owned && !src);
      oneWay(flow, cells, false, false, owned && !src);
    }
  }

  /**
   * Adds one direction of a flow for one of its ends: {@code source} says which, {@code forward}
   * whether the source sent the packets.
   */
  private void oneWay(
      FlowCursor flow, long[] cells, boolean source, boolean forward, boolean owned) {
    long octets = flow.octetsSent(forward);
    long packets = flow.packetsSent(forward);
    if (octets == 0 && packets == 0) {
      return;
    }
    int at = flow.place();
    boolean sends = source == forward;
    boolean atSource = flow.isServiceAtSource();
    int into = sends ? FlowTable.SRC : FlowTable.DST;
    Arrays.fill(entry, 0);
    entry[into] = flow.high(source);
    entry[into + 1] = flow.low(source);
    entry[FlowTable.TUPLE] =
        FlowTable.tuple(
                0,
                flow.port(atSource),
                flow.protocol(),
                sends ? FlowTable.SOURCE_AND_PORT : FlowTable.DESTINATION_AND_PORT)
            | (flow.isIpv6() ? FlowTable.OVERFLOW_IPV6 : 0)
            | (owned ? 0 : FlowTable.ELSEWHERE)
            | (forward == atSource ? FlowTable.BACK : 0);
    entry[FlowTable.FWD_OCTETS] = octets;
    entry[FlowTable.FWD_PACKETS] = packets;
    for (int i = FlowTable.SYN; i <= FlowTable.ICMP_ERRORS; i++) {
      entry[i] = forward ? cells[at + i] & ~0xffffffffL : cells[at + i] << 32;
    }
    entry[FlowTable.AS] = end(cells[at + FlowTable.AS], source, sends);
    entry[FlowTable.CUSTOMER] = end(cells[at + FlowTable.CUSTOMER], source, sends);
    long attributes = cells[at + FlowTable.ATTRIBUTES];
    long country = flow.country(source);
    entry[FlowTable.ATTRIBUTES] = country << (sends ? 32 : 16) | flags(attributes, source, sends);
    entry[FlowTable.SEEN] = cells[at + FlowTable.SEEN] & ~(0xffffL << 24);
    coarse.add(entry, 0);
  }

  /** One end's half of a number, moved to the position that the end has now. */
  private static long end(long both, boolean source, boolean sends) {
    long half = source ? both >>> 32 : both & 0xffffffffL;
    return sends ? half << 32 : half;
  }

  private static long flags(long attributes, boolean source, boolean sends) {
    long flags = attributes & (FlowTable.GUESS | FlowTable.IPV6 | FlowTable.ONE_WAY);
    int site = source ? Enrichment.SRC_AT_SITE : Enrichment.DST_AT_SITE;
    int nation = source ? Enrichment.SRC_NATIONAL : Enrichment.DST_NATIONAL;
    if ((attributes & site) != 0) {
      flags |= sends ? Enrichment.SRC_AT_SITE : Enrichment.DST_AT_SITE;
    }
    if ((attributes & nation) != 0) {
      flags |= sends ? Enrichment.SRC_NATIONAL : Enrichment.DST_NATIONAL;
    }
    return flags;
  }

  /** Adds an entry to the sum of its protocol. */
  private void protocol(long[] cells, int at) {
    Arrays.fill(entry, 0);
    long tuple = cells[at + FlowTable.TUPLE];
    entry[FlowTable.TUPLE] =
        FlowTable.tuple(0, 0, FlowTable.protocol(tuple), FlowTable.PROTOCOL)
            | (tuple & (FlowTable.OVERFLOW_IPV6 | FlowTable.ELSEWHERE));
    System.arraycopy(
        cells,
        at + FlowTable.FWD_OCTETS,
        entry,
        FlowTable.FWD_OCTETS,
        FlowTable.AS - FlowTable.FWD_OCTETS);
    entry[FlowTable.ATTRIBUTES] =
        cells[at + FlowTable.ATTRIBUTES] & (FlowTable.IPV6 | FlowTable.ONE_WAY);
    folded.add(entry, 0);
  }

  /** Makes the sketches of the destinations of aggregated flows, for hosts that had many. */
  private void sketch(long[] cells, int size, long least, Sums went) {
    Sums rows = new Sums(1);
    sketches = new long[0];
    int length = 0;
    FlowCursor flow = new FlowCursor(cells).over(cells, size);
    while (flow.next()) {
      if (flow.isOverflow()
          || flow.octets() >= least
          || !flow.isIn(bucket, true)
          || went.get(flow.high(true), host(flow), 0) < SKETCH_FROM) {
        continue;
      }
      int row = rows.at(flow.high(true), host(flow)) + Sums.KEY;
      if (rows.cells()[row] == 0) {
        sketches = Arrays.copyOf(sketches, Math.max(length + Sketches.STRIDE, 2 * length));
        sketches[length] = flow.high(true);
        sketches[length + 1] = flow.low(true);
        sketches[length + 2] = flow.protocol();
        length += Sketches.STRIDE;
        rows.cells()[row] = length;
      }
      long hash = SecretHash.wide(flow.high(false), flow.low(false));
      Sketches.insert(sketches, (int) rows.cells()[row] - Sketches.STRIDE, hash);
    }
    sketches = Arrays.copyOf(sketches, length);
  }
}
