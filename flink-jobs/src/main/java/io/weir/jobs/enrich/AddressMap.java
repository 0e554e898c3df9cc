package io.weir.jobs.enrich;

import java.net.Inet4Address;
import java.net.InetAddress;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;

/**
 * Longest prefix match: which value an address has. Prefixes are flattened into ranges that do not
 * overlap, so a look-up is a search among their starts, narrowed down by the address's first 16
 * bits. Never changes once it is built, so any thread may read it.
 */
public final class AddressMap {
  private static final int FIRST_BITS = 16;
  private static final int BLOCKS = 1 << FIRST_BITS;

  /** What has no prefix. */
  public static final AddressMap EMPTY = new Builder().build();

  // Starts of ranges in ascending order, the sign bit flipped so that signed comparison is right.
  private final int[] starts4;
  private final int[] values4;
  private final int[] blocks4;
  private final long[] high6;
  private final long[] low6;
  private final int[] values6;
  private final int[] blocks6;

  private AddressMap(Ranges four, Ranges six) {
    starts4 = new int[four.size];
    for (int i = 0; i < four.size; i++) {
      starts4[i] = (int) four.low[i] ^ Integer.MIN_VALUE;
    }
    values4 = Arrays.copyOf(four.values, four.size);
    blocks4 = new int[BLOCKS + 1];
    high6 = new long[six.size];
    low6 = new long[six.size];
    for (int i = 0; i < six.size; i++) {
      high6[i] = six.high[i] ^ Long.MIN_VALUE;
      low6[i] = six.low[i] ^ Long.MIN_VALUE;
    }
    values6 = Arrays.copyOf(six.values, six.size);
    blocks6 = new int[BLOCKS + 1];
    for (int block = 0, i4 = 0, i6 = 0; block < BLOCKS; block++) {
      int first4 = (block << 16) ^ Integer.MIN_VALUE;
      long first6 = ((long) block << 48) ^ Long.MIN_VALUE;
      while (i4 + 1 < starts4.length && starts4[i4 + 1] <= first4) {
        i4++;
      }
      while (i6 + 1 < high6.length
          && (high6[i6 + 1] < first6
              || (high6[i6 + 1] == first6 && low6[i6 + 1] == Long.MIN_VALUE))) {
        i6++;
      }
      blocks4[block] = i4;
      blocks6[block] = i6;
    }
    blocks4[BLOCKS] = starts4.length - 1;
    blocks6[BLOCKS] = high6.length - 1;
  }

  /** The value of an IPv4 address, 0 where no prefix holds it. */
  public int get(int address) {
    int key = address ^ Integer.MIN_VALUE;
    int low = blocks4[address >>> 16];
    int high = blocks4[(address >>> 16) + 1];
    while (low < high) {
      int middle = (low + high + 1) >>> 1;
      if (starts4[middle] <= key) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return values4[low];
  }

  /** The value of an IPv6 address in two halves, 0 where no prefix holds it. */
  public int get(long high64, long low64) {
    long keyHigh = high64 ^ Long.MIN_VALUE;
    long keyLow = low64 ^ Long.MIN_VALUE;
    int block = (int) (high64 >>> 48);
    int low = blocks6[block];
    int high = blocks6[block + 1];
    while (low < high) {
      int middle = (low + high + 1) >>> 1;
      long start = high6[middle];
      if (start < keyHigh || (start == keyHigh && low6[middle] <= keyLow)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return values6[low];
  }

  /** Ranges of both families, those without a value included. */
  int ranges() {
    return starts4.length + high6.length;
  }

  /** Collects prefixes in any order; of equal ones the last holds. */
  public static final class Builder {
    private final List<Entry> four = new ArrayList<>();
    private final List<Entry> six = new ArrayList<>();

    /** Addresses whose first {@code length} bits are those of {@code address} have this value. */
    public void add(InetAddress address, int length, int value) {
      byte[] bytes = address.getAddress();
      if (address instanceof Inet4Address) {
        add4(0xffff_ffffL & number(bytes, 0, 4), length, value);
      } else {
        add6(number(bytes, 0, 8), number(bytes, 8, 16), length, value);
      }
    }

    private void add4(long address, int length, int value) {
      long rest = length == 32 ? 0 : 0xffff_ffffL >>> length;
      four.add(new Entry(0, address & ~rest, 0, address | rest, value));
    }

    private void add6(long high, long low, int length, int value) {
      long restHigh = length >= 64 ? 0 : -1L >>> length;
      long restLow = length <= 64 ? -1 : length == 128 ? 0 : -1L >>> (length - 64);
      six.add(new Entry(high & ~restHigh, low & ~restLow, high | restHigh, low | restLow, value));
    }

    private static long number(byte[] bytes, int from, int to) {
      long number = 0;
      for (int i = from; i < to; i++) {
        number = (number << 8) | (bytes[i] & 0xff);
      }
      return number;
    }

    public AddressMap build() {
      return new AddressMap(flatten(four, 0xffff_ffffL, 0), flatten(six, -1, -1));
    }

    /** Prefixes nest or are apart, so those that hold the address at hand form a stack. */
    private static Ranges flatten(List<Entry> entries, long lastLow, long lastHigh) {
      entries.sort(Entry::compare);
      Ranges ranges = new Ranges(2 * entries.size() + 1);
      ranges.add(0, 0, 0);
      Deque<Entry> open = new ArrayDeque<>();
      for (Entry entry : entries) {
        while (!open.isEmpty() && open.peek().endsBefore(entry.high, entry.low)) {
          close(open, ranges);
        }
        ranges.add(entry.high, entry.low, entry.value);
        open.push(entry);
      }
      while (!open.isEmpty() && open.peek().endsBefore(lastHigh, lastLow)) {
        close(open, ranges);
      }
      return ranges;
    }

    private static void close(Deque<Entry> open, Ranges ranges) {
      Entry closed = open.pop();
      int value = open.isEmpty() ? 0 : open.peek().value;
      long low = closed.endLow + 1;
      ranges.add(low == 0 ? closed.endHigh + 1 : closed.endHigh, low, value);
    }
  }

  private record Entry(long high, long low, long endHigh, long endLow, int value) {
    /** By start; of the same start the wider first. The sort is stable. */
    static int compare(Entry a, Entry b) {
      int order = Long.compareUnsigned(a.high, b.high);
      order = order != 0 ? order : Long.compareUnsigned(a.low, b.low);
      order = order != 0 ? order : Long.compareUnsigned(b.endHigh, a.endHigh);
      return order != 0 ? order : Long.compareUnsigned(b.endLow, a.endLow);
    }

    boolean endsBefore(long otherHigh, long otherLow) {
      int order = Long.compareUnsigned(endHigh, otherHigh);
      return order < 0 || (order == 0 && Long.compareUnsigned(endLow, otherLow) < 0);
    }
  }

  /** Ranges in ascending order, each up to the start of the next. */
  private static final class Ranges {
    final long[] high;
    final long[] low;
    final int[] values;
    int size;

    Ranges(int capacity) {
      high = new long[capacity];
      low = new long[capacity];
      values = new int[capacity];
    }

    void add(long startHigh, long startLow, int value) {
      if (size > 0 && high[size - 1] == startHigh && low[size - 1] == startLow) {
        size--; // the narrower of two that begin here
      }
      if (size > 0 && values[size - 1] == value) {
        return;
      }
      high[size] = startHigh;
      low[size] = startLow;
      values[size++] = value;
    }
  }
}
