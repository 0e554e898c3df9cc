package io.weir.jobs.window;

import java.util.Arrays;

/**
 * Entries of a {@link FlowTable} one after the other, in less than half the space: without zeros,
 * and with two small numbers packed in one. The first number is the tuple, whose free bits state
 * which numbers follow.
 */
final class Packed {
  /** Space that the longest entry takes. */
  private static final int MOST = FlowTable.STRIDE;

  // Bits of the first number.
  private static final int BOTH_IPV4 = 1 << 8; // both addresses in one number
  private static final int SMALL = 1 << 9; // octets and packets in one number, for each direction
  private static final int REVERSE = 1 << 10; // the reverse direction is there
  private static final int TCP = 1 << 11; // counts of flags are there
  private static final int TCP_SMALL = 1 << 12; // in one number
  private static final int ICMP = 1 << 13;
  private static final int AS = 1 << 14;
  private static final int CUSTOMER = 1 << 15;
  private static final long BITS = 0xff00;

  private static final long IPV4 = 0xffffL << 32;
  private static final long LOW = 0xffffffffL;

  /** Counts that fit one octet each, forward and reverse. */
  private static final long OCTETS = 0xff_000000ffL;

  private long[] numbers = new long[64];
  private int length;
  private int entries;
  private int last;

  /** Entries so far. */
  int entries() {
    return entries;
  }

  /** Appends an entry. */
  void add(long[] entry, int from) {
    if (length + MOST > numbers.length) {
      numbers = Arrays.copyOf(numbers, numbers.length * 2);
    }
    last = length;
    entries++;
    long[] to = numbers;
    int at = length + 1;
    long bits = 0;
    long srcLow = entry[from + 1];
    long dstLow = entry[from + 3];
    if ((entry[from] | entry[from + 2]) == 0
        && srcLow >>> 32 == 0xffff
        && dstLow >>> 32 == 0xffff) {
      bits |= BOTH_IPV4;
      to[at++] = srcLow << 32 | (dstLow & LOW);
    } else {
      System.arraycopy(entry, from, to, at, 4);
      at += 4;
    }
    long fwdOctets = entry[from + FlowTable.FWD_OCTETS];
    long fwdPackets = entry[from + FlowTable.FWD_PACKETS];
    long revOctets = entry[from + FlowTable.REV_OCTETS];
    long revPackets = entry[from + FlowTable.REV_PACKETS];
    boolean reverse = (revOctets | revPackets) != 0;
    bits |= reverse ? REVERSE : 0;
    if ((fwdOctets | fwdPackets | revOctets | revPackets) >>> 32 == 0) {
      bits |= SMALL;
      to[at++] = fwdOctets << 32 | fwdPackets;
      if (reverse) {
        to[at++] = revOctets << 32 | revPackets;
      }
    } else {
      System.arraycopy(entry, from + FlowTable.FWD_OCTETS, to, at, reverse ? 4 : 2);
      at += reverse ? 4 : 2;
    }
    long syn = entry[from + FlowTable.SYN];
    long synack = entry[from + FlowTable.SYNACK];
    long fin = entry[from + FlowTable.FIN];
    long rst = entry[from + FlowTable.RST];
    long all = syn | synack | fin | rst;
    if (all != 0) {
      bits |= TCP;
      if ((all & ~OCTETS) == 0) {
        bits |= TCP_SMALL;
        to[at++] = syn << 24 | synack << 16 | fin << 8 | rst;
      } else {
        System.arraycopy(entry, from + FlowTable.SYN, to, at, 4);
        at += 4;
      }
    }
    if (entry[from + FlowTable.ICMP_ERRORS] != 0) {
      bits |= ICMP;
      to[at++] = entry[from + FlowTable.ICMP_ERRORS];
    }
    if (entry[from + FlowTable.AS] != 0) {
      bits |= AS;
      to[at++] = entry[from + FlowTable.AS];
    }
    if (entry[from + FlowTable.CUSTOMER] != 0) {
      bits |= CUSTOMER;
      to[at++] = entry[from + FlowTable.CUSTOMER];
    }
    to[at++] = entry[from + FlowTable.ATTRIBUTES];
    to[at++] = entry[from + FlowTable.SEEN];
    to[length] = entry[from + FlowTable.TUPLE] | bits;
    length = at;
  }

  /** Appends the entry that was last appended to {@code other}. */
  void addLastOf(Packed other) {
    int count = other.length - other.last;
    if (length + count > numbers.length) {
      numbers = Arrays.copyOf(numbers, numbers.length * 2);
    }
    System.arraycopy(other.numbers, other.last, numbers, length, count);
    last = length;
    length += count;
    entries++;
  }

  /** Returns the appended entries as a new array, and starts over. */
  long[] take() {
    long[] taken = Arrays.copyOf(numbers, length);
    length = 0;
    entries = 0;
    return taken;
  }

  /**
   * Reads the entry that begins at {@code from} into {@code entry}; returns the beginning of the
   * next.
   */
  static int read(long[] packed, int from, long[] entry) {
    return read(packed, from, entry, 0);
  }

  /** Reads the entry into {@code entries} from {@code to} on. */
  static int read(long[] packed, int from, long[] entries, int to) {
    int at = from;
    long first = packed[at++];
    int bits = (int) first;
    entries[to + FlowTable.TUPLE] = first & ~BITS;
    if ((bits & BOTH_IPV4) != 0) {
      long both = packed[at++];
      entries[to] = 0;
      entries[to + 1] = IPV4 | both >>> 32;
      entries[to + 2] = 0;
      entries[to + 3] = IPV4 | (both & LOW);
    } else {
      System.arraycopy(packed, at, entries, to, 4);
      at += 4;
    }
    if ((bits & SMALL) != 0) {
      long forward = packed[at++];
      entries[to + FlowTable.FWD_OCTETS] = forward >>> 32;
      entries[to + FlowTable.FWD_PACKETS] = forward & LOW;
      long reverse = (bits & REVERSE) != 0 ? packed[at++] : 0;
      entries[to + FlowTable.REV_OCTETS] = reverse >>> 32;
      entries[to + FlowTable.REV_PACKETS] = reverse & LOW;
    } else {
      entries[to + FlowTable.FWD_OCTETS] = packed[at++];
      entries[to + FlowTable.FWD_PACKETS] = packed[at++];
      boolean there = (bits & REVERSE) != 0;
      entries[to + FlowTable.REV_OCTETS] = there ? packed[at++] : 0;
      entries[to + FlowTable.REV_PACKETS] = there ? packed[at++] : 0;
    }
    if ((bits & TCP) == 0 || (bits & TCP_SMALL) != 0) {
      long flags = (bits & TCP) == 0 ? 0 : packed[at++];
      entries[to + FlowTable.SYN] = flags >>> 24 & OCTETS;
      entries[to + FlowTable.SYNACK] = flags >>> 16 & OCTETS;
      entries[to + FlowTable.FIN] = flags >>> 8 & OCTETS;
      entries[to + FlowTable.RST] = flags & OCTETS;
    } else {
      System.arraycopy(packed, at, entries, to + FlowTable.SYN, 4);
      at += 4;
    }
    entries[to + FlowTable.ICMP_ERRORS] = (bits & ICMP) != 0 ? packed[at++] : 0;
    entries[to + FlowTable.AS] = (bits & AS) != 0 ? packed[at++] : 0;
    entries[to + FlowTable.CUSTOMER] = (bits & CUSTOMER) != 0 ? packed[at++] : 0;
    entries[to + FlowTable.ATTRIBUTES] = packed[at++];
    entries[to + FlowTable.SEEN] = packed[at++];
    return at;
  }
}
