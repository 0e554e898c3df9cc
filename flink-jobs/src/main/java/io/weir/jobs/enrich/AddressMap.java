package io.weir.jobs.enrich;

import java.net.Inet4Address;
import java.net.InetAddress;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;

/**
 * Maps an address to the value of the longest prefix that contains it. Prefixes are flattened into
 * ranges that do not overlap; {@link AddressTable} looks addresses up in them. Immutable.
 */
public final class AddressMap {
  /** A map without prefixes. */
  public static final AddressMap EMPTY = new Builder().build();

  /** Ranges of IPv4; an address is the low 64 bits of a 128-bit number. */
  final Ranges four;

  final Ranges six;

  private AddressMap(Ranges four, Ranges six) {
    this.four = four.trimmed();
    this.six = six.trimmed();
  }

  /** Number of ranges of both families, including those without a value. */
  int ranges() {
    return four.size + six.size;
  }

  /** Collects prefixes in any order; if two are equal, the last one counts. */
  public static final class Builder {
    private final List<Entry> four = new ArrayList<>();
    private final List<Entry> six = new ArrayList<>();

    /**
     * Assigns this value to the addresses whose first {@code length} bits are those of {@code
     * address}.
     */
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

    /** Prefixes nest or are disjoint, so those that contain the current address form a stack. */
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
    /** Sorted by start; with equal starts, the wider prefix comes first. The sort is stable. */
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

  /** Ranges in ascending order, each up to the start of the next; the first starts at 0. */
  static final class Ranges {
    final long[] high;
    final long[] low;
    final int[] values;
    int size;

    private Ranges(int capacity) {
      this(new long[capacity], new long[capacity], new int[capacity], 0);
    }

    private Ranges(long[] high, long[] low, int[] values, int size) {
      this.high = high;
      this.low = low;
      this.values = values;
      this.size = size;
    }

    private void add(long startHigh, long startLow, int value) {
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

    private Ranges trimmed() {
      return new Ranges(
          Arrays.copyOf(high, size), Arrays.copyOf(low, size), Arrays.copyOf(values, size), size);
    }
  }
}
