package io.weir.jobs.window;

import io.weir.jobs.message.Enrichment;
import java.util.Arrays;

/**
 * The flows of a window: an open hash table by five-tuple whose entries are contiguous in one
 * array, {@link #STRIDE} numbers each, so that adding allocates nothing. This class, {@link Packed}
 * and {@link FlowCursor} know the layout of an entry; other code reads flows with the cursor.
 *
 * <p>A flow's attributes other than sums (application, AS, country, customer) are the largest
 * values of its records, so that a known value replaces 0, unknown.
 */
final class FlowTable {
  /** Numbers of an entry. */
  static final int STRIDE = 18;

  /** Numbers of its key: source, destination (two each), and {@link #TUPLE}. */
  static final int KEY = 5;

  static final int SRC = 0;
  static final int DST = 2;

  /**
   * Source port, destination port (16 bits each), protocol (8), then {@link #overflowKey} and, for
   * overflow records, {@link #OVERFLOW_IPV6}.
   */
  static final int TUPLE = 4;

  /** Bit of {@link #TUPLE}: an overflow record of IPv6, which its addresses may not reveal. */
  static final long OVERFLOW_IPV6 = 1;

  /**
   * Bit of {@link #TUPLE}, set only by {@link Coarse}: the flow is counted in the bucket of its
   * other address.
   */
  static final long ELSEWHERE = 2;

  /** Bit of {@link #TUPLE}, set only by {@link Coarse}: packets from the port, not to it. */
  static final long BACK = 4;

  static final int FWD_OCTETS = 5;
  static final int FWD_PACKETS = 6;
  static final int REV_OCTETS = 7;
  static final int REV_PACKETS = 8;

  /** Counts of both directions, 32 bits each, forward first. */
  static final int SYN = 9;

  static final int SYNACK = 10;
  static final int FIN = 11;
  static final int RST = 12;
  static final int ICMP_ERRORS = 13;

  /**
   * The part of {@link #ICMP_ERRORS} that quotes UDP; packets with FIN and ICMP errors are of
   * different protocols.
   */
  static final int ICMP_ERRORS_UDP = FIN;

  /** AS numbers of source and destination, 32 bits each. */
  static final int AS = 14;

  /** Customers of source and destination, 32 bits each. */
  static final int CUSTOMER = 15;

  /** Application, country of source and of destination, flags; 16 bits each. */
  static final int ATTRIBUTES = 16;

  /**
   * Times and counts: when the flow was first seen in the window, 24 bits, ms after {@link
   * #EARLIEST_MS} before the window's start; records that began the flow, 16 bits; sampling rate,
   * 24.
   */
  static final int SEEN = 17;

  /** Flags of {@link #ATTRIBUTES}; the lower six are those of {@link Enrichment#ends}. */
  static final int GUESS = 64;

  static final int IPV6 = 256;

  /** Flag of a flow whose initiator is a guess: the service is at the source's port. */
  static final int SERVICE_AT_SOURCE = 512;

  /** Flag: only probes that are declared to see one direction saw the flow. */
  static final int ONE_WAY = 1024;

  /** A packet from up to this long before an interval may be counted in it. */
  static final long EARLIEST_MS = 60_000;

  /** The kind of key of an overflow record, as in {@code Overflow.Key}; 0 for a flow. */
  static final int SOURCE_AND_PORT = 1;

  static final int DESTINATION_AND_PORT = 2;
  static final int PROTOCOL = 3;

  private static final long MAX_SEEN = (1 << 24) - 1;
  private static final int OVERFLOW_SHIFT = 22;

  private long[] cells;
  private int[] slots; // 1 + number of the entry; 0 is free
  private int size;

  FlowTable() {
    cells = new long[64 * STRIDE];
    slots = new int[128];
  }

  /** Distinct five-tuples. */
  int size() {
    return size;
  }

  /** The entries; only the first {@code size() * STRIDE} numbers count. */
  long[] cells() {
    return cells;
  }

  /** Removes all entries, and releases the memory of a large table. */
  void clear() {
    if (slots.length > 1 << 20 && size < slots.length / 16) {
      cells = new long[64 * STRIDE];
      slots = new int[128];
    } else {
      Arrays.fill(slots, 0);
    }
    size = 0;
  }

  /** The number of a key that combines ports, protocol and the kind of overflow record. */
  static long tuple(int srcPort, int dstPort, int protocol, int overflowKey) {
    return (long) srcPort << 48
        | (long) dstPort << 32
        | (long) protocol << 24
        | (long) overflowKey << OVERFLOW_SHIFT;
  }

  static int srcPort(long tuple) {
    return (int) (tuple >>> 48);
  }

  static int dstPort(long tuple) {
    return (int) (tuple >>> 32) & 0xffff;
  }

  static int protocol(long tuple) {
    return (int) (tuple >>> 24) & 0xff;
  }

  /** 0 for a flow, else the kind of key of the overflow record, as in {@code Overflow.Key}. */
  static int overflowKey(long tuple) {
    return (int) (tuple >>> OVERFLOW_SHIFT) & 3;
  }

  /** Whether it sums the replies of flows that were folded together. */
  static boolean isBack(long tuple) {
    return (tuple & BACK) != 0;
  }

  /** The number {@link #SEEN} of one record. */
  static long seen(long offsetMs, boolean began, int samplingRate) {
    long seen = Math.max(0, Math.min(MAX_SEEN, offsetMs + EARLIEST_MS));
    long rate = Math.min(MAX_SEEN, Integer.toUnsignedLong(samplingRate));
    return seen << 40 | (began ? 1L << 24 : 0) | rate;
  }

  /** When the flow was first seen, ms after the window's start. */
  static long firstSeen(long seen) {
    return (seen >>> 40) - EARLIEST_MS;
  }

  /** Records that began the flow. */
  static int began(long seen) {
    return (int) (seen >>> 24) & 0xffff;
  }

  /** One packet in this many was sampled; 0 and 1: all. */
  static int samplingRate(long seen) {
    return (int) seen & (int) MAX_SEEN;
  }

  /** Adds the entry that begins at {@code from}. */
  void add(long[] entry, int from) {
    if ((size + 1) * 2 > slots.length) {
      grow();
    }
    int slot = slot(entry, from);
    if (slots[slot] != 0) {
      merge((slots[slot] - 1) * STRIDE, entry, from);
      return;
    }
    int at = size * STRIDE;
    if (at == cells.length) {
      cells = Arrays.copyOf(cells, cells.length * 2);
    }
    System.arraycopy(entry, from, cells, at, STRIDE);
    slots[slot] = ++size;
  }

  private void merge(int at, long[] entry, int from) {
    for (int i = KEY; i <= ICMP_ERRORS; i++) {
      cells[at + i] += entry[from + i];
    }
    if (cells[at + AS] != entry[from + AS]) {
      cells[at + AS] = larger(cells[at + AS], entry[from + AS], 32);
    }
    if (cells[at + CUSTOMER] != entry[from + CUSTOMER]) {
      cells[at + CUSTOMER] = larger(cells[at + CUSTOMER], entry[from + CUSTOMER], 32);
    }
    long a = cells[at + ATTRIBUTES];
    long b = entry[from + ATTRIBUTES];
    if (a != b) {
      long flags = (a | b) & 0xffff;
      if ((a & b & GUESS) == 0) {
        flags &= ~GUESS; // a SYN was seen at some time
      }
      cells[at + ATTRIBUTES] = (larger(a, b, 16) & ~0xffffL) | flags;
    }
    long seenA = cells[at + SEEN];
    long seenB = entry[from + SEEN];
    cells[at + SEEN] =
        Math.min(seenA >>> 40, seenB >>> 40) << 40
            | (long) Math.min(0xffff, began(seenA) + began(seenB)) << 24
            | Math.max(samplingRate(seenA), samplingRate(seenB));
  }

  /** Compares two longs as groups of {@code bits} bits, and takes the larger of each group. */
  private static long larger(long a, long b, int bits) {
    long mask = (1L << bits) - 1;
    long result = 0;
    for (int shift = 0; shift < 64; shift += bits) {
      result |= Math.max(a >>> shift & mask, b >>> shift & mask) << shift;
    }
    return result;
  }

  /** The entry of a key, or -1. */
  int find(long[] key, int from) {
    return slots[slot(key, from)] - 1;
  }

  /** The slot of a key: that of its entry, or the free one where it would be. */
  private int slot(long[] key, int from) {
    int mask = slots.length - 1;
    int slot = SecretHash.ofFive(key, from) & mask;
    while (slots[slot] != 0) {
      int at = (slots[slot] - 1) * STRIDE;
      if (cells[at + 1] == key[from + 1]
          && cells[at + 3] == key[from + 3]
          && cells[at + 4] == key[from + 4]
          && cells[at] == key[from]
          && cells[at + 2] == key[from + 2]) {
        break;
      }
      slot = slot + 1 & mask;
    }
    return slot;
  }

  private void grow() {
    slots = new int[slots.length * 2];
    int mask = slots.length - 1;
    for (int entry = 0; entry < size; entry++) {
      int slot = SecretHash.ofFive(cells, entry * STRIDE) & mask;
      while (slots[slot] != 0) {
        slot = slot + 1 & mask;
      }
      slots[slot] = entry + 1;
    }
  }

  /** Whether two entries have the same five-tuple. */
  static boolean sameDirection(long[] cells, int a, int b) {
    return cells[a] == cells[b]
        && cells[a + 1] == cells[b + 1]
        && cells[a + 2] == cells[b + 2]
        && cells[a + 3] == cells[b + 3]
        && cells[a + 4] == cells[b + 4];
  }

  /** Whether two entries belong to the same flow, in either direction. */
  static boolean sameFlow(long[] cells, int a, int b) {
    return sameDirection(cells, a, b)
        || (cells[a] == cells[b + 2]
            && cells[a + 1] == cells[b + 3]
            && cells[a + 2] == cells[b]
            && cells[a + 3] == cells[b + 1]
            && cells[a + 4] == turned(cells[b + 4]));
  }

  private static long turned(long tuple) {
    long srcPort = (tuple >>> 16) & 0xffff00000000L;
    long dstPort = (tuple & 0xffff00000000L) << 16;
    return (tuple & 0xffffffffL) | srcPort | dstPort;
  }

  /** A hash that is the same for both directions of a flow. */
  static int hashOfBoth(long[] cells, int at) {
    int src = SecretHash.of(cells[at], cells[at + 1] ^ cells[at + 4] >>> 48 << 40);
    int dst = SecretHash.of(cells[at + 2], cells[at + 3] ^ (cells[at + 4] >>> 32 & 0xffff) << 40);
    int h = (src + dst) * 0x9e3779b1 + (int) (cells[at + 4] >>> 24 & 0xff);
    return h ^ h >>> 15;
  }

  /** Gives an entry the direction that it lacks, from another entry that has it. */
  static void join(long[] cells, int at, boolean forward, int from, boolean fromForward) {
    int octets = at + (forward ? FWD_OCTETS : REV_OCTETS);
    int fromOctets = from + (fromForward ? FWD_OCTETS : REV_OCTETS);
    cells[octets] = cells[fromOctets];
    cells[octets + 1] = cells[fromOctets + 1];
    for (int count = SYN; count <= ICMP_ERRORS; count++) {
      long value = fromForward ? cells[from + count] >>> 32 : cells[from + count] & 0xffffffffL;
      cells[at + count] += forward ? value << 32 : value;
    }
    cells[at + ATTRIBUTES] &= ~ONE_WAY;
  }
}
