package io.weir.jobs.window;

import io.weir.jobs.message.Enrichment;
import java.util.Arrays;
import org.apache.datasketches.memory.XxHash;

/**
 * Gives up detail where a bucket holds more flows than it may: the largest flows by octets stay,
 * the others are added up as the agent would have done past its own bound. What a host of the
 * bucket sent goes to (source, port), what it was sent to (destination, port); where there are too
 * many of those, the smallest go on to the protocol alone. Packets, octets and SYNs stay exact.
 *
 * <p>How many distinct destinations a host had among the flows that went is kept in a sketch, where
 * they are many ({@link Sketches}; the hash is that of Apache DataSketches). A flow that went may
 * come again and is then too small by what it had: at most the largest that went, each time.
 */
final class Coarse {
  private static final int SOURCE_AND_PORT = 1;
  private static final int DESTINATION_AND_PORT = 2;
  private static final int PROTOCOL = 3;

  /** Flows that went, of one host and protocol, from which on their destinations are sketched. */
  private static final int SKETCH_FROM = 64;

  private final FlowTable kept = new FlowTable();
  private final FlowTable coarse = new FlowTable();
  private final long[] entry = new long[FlowTable.STRIDE];
  private final byte[] address = new byte[16];
  private int bucket;
  private long largest;
  private long[] sketches;

  /** What stays, and what the rest became. */
  FlowTable kept() {
    return kept;
  }

  /** Octets of the largest flow that went. */
  long largest() {
    return largest;
  }

  /** Sketches of the destinations that went, as in {@link Sketches}. */
  long[] sketches() {
    return sketches;
  }

  /** Adds up flows so that at most about {@code limit} entries are left. */
  void load(FlowTable table, int ofBucket, int limit) {
    bucket = ofBucket;
    kept.clear();
    coarse.clear();
    long[] cells = table.cells();
    long least = nth(cells, table.size(), true, limit * 3 / 4);
    largest = 0;
    Sums went = new Sums(1);
    for (int at = 0; at < table.size() * FlowTable.STRIDE; at += FlowTable.STRIDE) {
      if (FlowTable.overflowKey(cells[at + FlowTable.TUPLE]) != 0) {
        coarse.add(cells, at);
      } else if (octets(cells, at) >= least) {
        kept.add(cells, at);
      } else {
        largest = Math.max(largest, octets(cells, at));
        both(cells, at);
        if (isHere(cells, at + FlowTable.SRC)) {
          went.add(cells[at], host(cells, at), 0, 1);
        }
      }
    }
    sketch(cells, table.size(), least, went);
    long leastCoarse = nth(coarse.cells(), coarse.size(), false, limit / 4);
    long[] added = coarse.cells();
    for (int at = 0; at < coarse.size() * FlowTable.STRIDE; at += FlowTable.STRIDE) {
      int key = FlowTable.overflowKey(added[at + FlowTable.TUPLE]);
      if (key != PROTOCOL && octets(added, at) < leastCoarse) {
        protocol(added, at);
      } else {
        kept.add(added, at);
      }
    }
  }

  private static long octets(long[] cells, int at) {
    return cells[at + FlowTable.FWD_OCTETS] + cells[at + FlowTable.REV_OCTETS];
  }

  /** Octets that about {@code count} of the flows, or of the overflow records, have at least. */
  private static long nth(long[] cells, int size, boolean flows, int count) {
    long[] values = new long[size];
    int length = 0;
    for (int at = 0; at < size * FlowTable.STRIDE; at += FlowTable.STRIDE) {
      if ((FlowTable.overflowKey(cells[at + FlowTable.TUPLE]) == 0) == flows) {
        values[length++] = octets(cells, at);
      }
    }
    if (length <= count) {
      return Long.MIN_VALUE;
    }
    Arrays.sort(values, 0, length);
    // Of equal ones all go or all stay: better less than too much.
    return values[length - count - 1] + 1;
  }

  private boolean isHere(long[] cells, int at) {
    return Buckets.of(cells[at], cells[at + 1]) == bucket;
  }

  /** The address's lower half with the protocol in it: enough to count by. */
  private static long host(long[] cells, int at) {
    return cells[at + 1] ^ (long) FlowTable.protocol(cells[at + FlowTable.TUPLE]) << 48;
  }

  /** Adds what both ends of a flow did, as far as they are in this bucket. */
  private void both(long[] cells, int at) {
    boolean owned = Buckets.owner(cells, at) == bucket;
    boolean src = isHere(cells, at + FlowTable.SRC);
    boolean dst = isHere(cells, at + FlowTable.DST);
    int port = FlowTable.dstPort(cells[at + FlowTable.TUPLE]);
    if (src) {
      oneWay(cells, at, true, true, port, owned);
      oneWay(cells, at, true, false, port, owned);
    }
    if (dst) {
      oneWay(cells, at, false, true, port, owned && !src);
      oneWay(cells, at, false, false, port, owned && !src);
    }
  }

  /**
   * Adds one direction of a flow for one of its ends: {@code source} says which, {@code forward}
   * whether it is what the source sent.
   */
  private void oneWay(
      long[] cells, int at, boolean source, boolean forward, int port, boolean owned) {
    int octets = at + (forward ? FlowTable.FWD_OCTETS : FlowTable.REV_OCTETS);
    if (cells[octets] == 0 && cells[octets + 1] == 0) {
      return;
    }
    boolean sends = source == forward;
    int from = at + (source ? FlowTable.SRC : FlowTable.DST);
    int into = sends ? FlowTable.SRC : FlowTable.DST;
    Arrays.fill(entry, 0);
    entry[into] = cells[from];
    entry[into + 1] = cells[from + 1];
    long attributes = cells[at + FlowTable.ATTRIBUTES];
    entry[FlowTable.TUPLE] =
        FlowTable.tuple(
                0,
                port,
                FlowTable.protocol(cells[at + FlowTable.TUPLE]),
                sends ? SOURCE_AND_PORT : DESTINATION_AND_PORT)
            | ((attributes & FlowTable.IPV6) != 0 ? FlowTable.OVERFLOW_IPV6 : 0)
            | (owned ? 0 : FlowTable.ELSEWHERE)
            | (forward ? 0 : FlowTable.BACK);
    entry[FlowTable.FWD_OCTETS] = cells[octets];
    entry[FlowTable.FWD_PACKETS] = cells[octets + 1];
    for (int i = FlowTable.SYN; i <= FlowTable.ICMP_ERRORS; i++) {
      entry[i] = forward ? cells[at + i] & ~0xffffffffL : cells[at + i] << 32;
    }
    entry[FlowTable.AS] = end(cells[at + FlowTable.AS], source, sends);
    entry[FlowTable.CUSTOMER] = end(cells[at + FlowTable.CUSTOMER], source, sends);
    long country = attributes >>> (source ? 32 : 16) & 0xffff;
    entry[FlowTable.ATTRIBUTES] = country << (sends ? 32 : 16) | flags(attributes, source, sends);
    entry[FlowTable.SEEN] = cells[at + FlowTable.SEEN] & ~(0xffffL << 24);
    coarse.add(entry, 0);
  }

  /** The half of a number that is of one end, put where that end is now. */
  private static long end(long both, boolean source, boolean sends) {
    long half = source ? both >>> 32 : both & 0xffffffffL;
    return sends ? half << 32 : half;
  }

  private static long flags(long attributes, boolean source, boolean sends) {
    long flags =
        attributes & (FlowTable.GUESS | FlowTable.IPV6 | FlowTable.ONE_WAY | FlowTable.QUOTES_UDP);
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

  /** Adds an entry by its protocol alone. */
  private void protocol(long[] cells, int at) {
    Arrays.fill(entry, 0);
    long tuple = cells[at + FlowTable.TUPLE];
    entry[FlowTable.TUPLE] =
        FlowTable.tuple(0, 0, FlowTable.protocol(tuple), PROTOCOL)
            | (tuple & (FlowTable.OVERFLOW_IPV6 | FlowTable.ELSEWHERE));
    System.arraycopy(
        cells,
        at + FlowTable.FWD_OCTETS,
        entry,
        FlowTable.FWD_OCTETS,
        FlowTable.AS - FlowTable.FWD_OCTETS);
    entry[FlowTable.ATTRIBUTES] =
        cells[at + FlowTable.ATTRIBUTES] & (FlowTable.IPV6 | FlowTable.ONE_WAY);
    kept.add(entry, 0);
  }

  /** Sketches the destinations of the flows that went, of hosts that had many. */
  private void sketch(long[] cells, int size, long least, Sums went) {
    Sums rows = new Sums(1);
    sketches = new long[0];
    int length = 0;
    for (int at = 0; at < size * FlowTable.STRIDE; at += FlowTable.STRIDE) {
      if (FlowTable.overflowKey(cells[at + FlowTable.TUPLE]) != 0
          || octets(cells, at) >= least
          || !isHere(cells, at + FlowTable.SRC)
          || went.get(cells[at], host(cells, at), 0) < SKETCH_FROM) {
        continue;
      }
      int row = rows.at(cells[at], host(cells, at)) + Sums.KEY;
      if (rows.cells()[row] == 0) {
        sketches = Arrays.copyOf(sketches, Math.max(length + Sketches.STRIDE, 2 * length));
        sketches[length] = cells[at];
        sketches[length + 1] = cells[at + 1];
        sketches[length + 2] = FlowTable.protocol(cells[at + FlowTable.TUPLE]);
        length += Sketches.STRIDE;
        rows.cells()[row] = length;
      }
      Sketches.insert(sketches, (int) rows.cells()[row] - Sketches.STRIDE, hash(cells, at));
    }
    sketches = Arrays.copyOf(sketches, length);
  }

  /** xxHash64 with seed 0 of the destination as 16 octets, as flow.proto has it. */
  private long hash(long[] cells, int at) {
    for (int i = 0; i < 8; i++) {
      address[i] = (byte) (cells[at + FlowTable.DST] >>> (56 - 8 * i));
      address[i + 8] = (byte) (cells[at + FlowTable.DST + 1] >>> (56 - 8 * i));
    }
    return XxHash.hashByteArr(address, 0, address.length, 0);
  }
}
