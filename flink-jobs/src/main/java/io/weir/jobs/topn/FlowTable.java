package io.weir.jobs.topn;

import java.util.Arrays;

/**
 * Sums by five-tuple: an open hash table whose entries lie one after the other in one array, {@link
 * #STRIDE} numbers each, so that adding allocates nothing and writing the table is writing the
 * array.
 */
final class FlowTable {
  /**
   * Numbers of an entry: 5 of the key (source and destination, two each; ports and protocol), 4
   * sums.
   */
  static final int STRIDE = 9;

  static final int FWD_OCTETS = 5;
  static final int FWD_PACKETS = 6;
  static final int REV_OCTETS = 7;
  static final int REV_PACKETS = 8;

  private long[] cells;
  private int[] slots; // 1 + number of the entry; 0 is free
  private int size;

  FlowTable() {
    cells = new long[16 * STRIDE];
    slots = new int[32];
  }

  private FlowTable(FlowTable other) {
    cells = Arrays.copyOf(other.cells, Math.max(STRIDE, other.size * STRIDE));
    slots = other.slots.clone();
    size = other.size;
  }

  /** Distinct five-tuples. */
  int size() {
    return size;
  }

  /** The entries; only the first {@code size() * STRIDE} numbers count. */
  long[] cells() {
    return cells;
  }

  FlowTable copy() {
    return new FlowTable(this);
  }

  /** Ports and protocol as one number of the key. */
  static long ports(int srcPort, int dstPort, int protocol) {
    return (long) srcPort << 32 | (long) dstPort << 16 | protocol;
  }

  /** Adds to the sums of a five-tuple. */
  void add(
      long srcHigh,
      long srcLow,
      long dstHigh,
      long dstLow,
      long ports,
      long fwdOctets,
      long fwdPackets,
      long revOctets,
      long revPackets) {
    if ((size + 1) * 2 > slots.length) {
      grow();
    }
    int mask = slots.length - 1;
    int slot = hash(srcHigh, srcLow, dstHigh, dstLow, ports) & mask;
    int at;
    while (true) {
      int entry = slots[slot];
      if (entry == 0) {
        at = size * STRIDE;
        if (at == cells.length) {
          cells = Arrays.copyOf(cells, cells.length * 2);
        }
        cells[at] = srcHigh;
        cells[at + 1] = srcLow;
        cells[at + 2] = dstHigh;
        cells[at + 3] = dstLow;
        cells[at + 4] = ports;
        Arrays.fill(cells, at + 5, at + STRIDE, 0);
        slots[slot] = ++size;
        break;
      }
      at = (entry - 1) * STRIDE;
      if (cells[at + 1] == srcLow
          && cells[at + 3] == dstLow
          && cells[at + 4] == ports
          && cells[at] == srcHigh
          && cells[at + 2] == dstHigh) {
        break;
      }
      slot = slot + 1 & mask;
    }
    cells[at + FWD_OCTETS] += fwdOctets;
    cells[at + FWD_PACKETS] += fwdPackets;
    cells[at + REV_OCTETS] += revOctets;
    cells[at + REV_PACKETS] += revPackets;
  }

  /** Adds the entries that lie in {@code from} from {@code start} on. */
  void addEntries(long[] from, int start, int end) {
    for (int i = start; i < end; i += STRIDE) {
      add(
          from[i],
          from[i + 1],
          from[i + 2],
          from[i + 3],
          from[i + 4],
          from[i + FWD_OCTETS],
          from[i + FWD_PACKETS],
          from[i + REV_OCTETS],
          from[i + REV_PACKETS]);
    }
  }

  void clear() {
    Arrays.fill(slots, 0);
    size = 0;
  }

  private void grow() {
    slots = new int[slots.length * 2];
    int mask = slots.length - 1;
    for (int entry = 0; entry < size; entry++) {
      int slot = hashAt(cells, entry * STRIDE) & mask;
      while (slots[slot] != 0) {
        slot = slot + 1 & mask;
      }
      slots[slot] = entry + 1;
    }
  }

  /** Hash of the key of the entry at {@code at}. */
  static int hashAt(long[] cells, int at) {
    return hash(cells[at], cells[at + 1], cells[at + 2], cells[at + 3], cells[at + 4]);
  }

  private static int hash(long a, long b, long c, long d, long e) {
    long h = a * 0x9e3779b97f4a7c15L + b;
    h = (h ^ h >>> 32) * 0xd6e8feb86659fd93L + c;
    h = (h ^ h >>> 29) * 0x9e3779b97f4a7c15L + d;
    h = (h ^ h >>> 32) * 0xd6e8feb86659fd93L + e;
    h = (h ^ h >>> 29) * 0x9e3779b97f4a7c15L;
    return (int) (h ^ h >>> 32);
  }

  /**
   * The {@code n} entries with the most octets, in order; ties by key, so that the order is always
   * the same.
   */
  static long[] top(long[] cells, int entries, int n) {
    int keep = Math.min(n, entries);
    int[] heap = new int[keep]; // the least of the best so far is first
    int filled = 0;
    for (int entry = 0; entry < entries; entry++) {
      int at = entry * STRIDE;
      if (filled < keep) {
        int child = filled++;
        while (child > 0 && above(cells, heap[(child - 1) / 2], at)) {
          heap[child] = heap[(child - 1) / 2];
          child = (child - 1) / 2;
        }
        heap[child] = at;
      } else if (keep > 0 && above(cells, at, heap[0])) {
        sink(cells, heap, filled, at);
      }
    }
    long[] top = new long[filled * STRIDE];
    for (int place = filled - 1; place >= 0; place--) {
      System.arraycopy(cells, heap[0], top, place * STRIDE, STRIDE);
      int moved = heap[place];
      sink(cells, heap, place, moved);
    }
    return top;
  }

  private static void sink(long[] cells, int[] heap, int length, int at) {
    int parent = 0;
    while (true) {
      int child = 2 * parent + 1;
      if (child >= length) {
        break;
      }
      if (child + 1 < length && above(cells, heap[child], heap[child + 1])) {
        child++;
      }
      if (!above(cells, at, heap[child])) {
        break;
      }
      heap[parent] = heap[child];
      parent = child;
    }
    if (parent < heap.length) {
      heap[parent] = at;
    }
  }

  /** Whether the entry at {@code a} belongs above that at {@code b} in a list. */
  private static boolean above(long[] cells, int a, int b) {
    long octetsA = cells[a + FWD_OCTETS] + cells[a + REV_OCTETS];
    long octetsB = cells[b + FWD_OCTETS] + cells[b + REV_OCTETS];
    if (octetsA != octetsB) {
      return Long.compareUnsigned(octetsA, octetsB) > 0;
    }
    for (int i = 0; i < 5; i++) {
      if (cells[a + i] != cells[b + i]) {
        return Long.compareUnsigned(cells[a + i], cells[b + i]) < 0;
      }
    }
    return false;
  }
}
