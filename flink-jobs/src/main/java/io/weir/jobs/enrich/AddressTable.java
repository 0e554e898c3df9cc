package io.weir.jobs.enrich;

import io.weir.jobs.enrich.AddressMap.Ranges;
import java.util.Arrays;

/**
 * Several {@link AddressMap}s combined, so that one search finds the values of all of them: a
 * look-up mostly waits for memory, and here it waits only once. A search covers the starts of the
 * ranges that begin with the address's first 16 bits. Immutable, so any thread may read it.
 */
public final class AddressTable {
  private static final int BLOCKS = 1 << 16;

  // Starts in ascending order, the sign bit flipped so that signed comparison is right.
  private final int[] starts4;
  private final int[] blocks4 = new int[BLOCKS + 1];
  private final long[] high6;
  private final long[] low6;
  private final int[] blocks6 = new int[BLOCKS + 1];

  /** Values of all maps for each range: first those of IPv4, then those of IPv6. */
  private final int[] values;

  private final int maps;

  private AddressTable(Joined four, Joined six, int maps) {
    this.maps = maps;
    starts4 = new int[four.size];
    for (int i = 0; i < four.size; i++) {
      starts4[i] = (int) four.low[i] ^ Integer.MIN_VALUE;
    }
    high6 = new long[six.size];
    low6 = new long[six.size];
    for (int i = 0; i < six.size; i++) {
      high6[i] = six.high[i] ^ Long.MIN_VALUE;
      low6[i] = six.low[i] ^ Long.MIN_VALUE;
    }
    values = Arrays.copyOf(four.values, maps * (four.size + six.size));
    System.arraycopy(six.values, 0, values, maps * four.size, maps * six.size);
    int last4 = 0;
    int last6 = 0;
    for (int block = 0; block < BLOCKS; block++) {
      int first4 = (block << 16) ^ Integer.MIN_VALUE;
      long first6 = ((long) block << 48) ^ Long.MIN_VALUE;
      while (last4 + 1 < starts4.length && starts4[last4 + 1] <= first4) {
        last4++;
      }
      while (last6 + 1 < high6.length && notAfter(last6 + 1, first6, Long.MIN_VALUE)) {
        last6++;
      }
      blocks4[block] = last4;
      blocks6[block] = last6;
    }
    blocks4[BLOCKS] = starts4.length - 1;
    blocks6[BLOCKS] = high6.length - 1;
  }

  /** Joins maps; {@link #value} identifies a map by its index in this list. */
  static AddressTable of(AddressMap... maps) {
    Ranges[] four = Arrays.stream(maps).map(map -> map.four).toArray(Ranges[]::new);
    Ranges[] six = Arrays.stream(maps).map(map -> map.six).toArray(Ranges[]::new);
    return new AddressTable(new Joined(four), new Joined(six), maps.length);
  }

  /** Index of the range that contains an IPv4 address. */
  int find(int address) {
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
    return maps * low;
  }

  /** Index of the range that contains an IPv6 address, given as two longs. */
  int find(long addressHigh, long addressLow) {
    long keyHigh = addressHigh ^ Long.MIN_VALUE;
    long keyLow = addressLow ^ Long.MIN_VALUE;
    int block = (int) (addressHigh >>> 48);
    int low = blocks6[block];
    int high = blocks6[block + 1];
    while (low < high) {
      int middle = (low + high + 1) >>> 1;
      if (notAfter(middle, keyHigh, keyLow)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return maps * (starts4.length + low);
  }

  private boolean notAfter(int range, long keyHigh, long keyLow) {
    long start = high6[range];
    return start < keyHigh || (start == keyHigh && low6[range] <= keyLow);
  }

  /** A map's value for a range; 0 if none of its prefixes contains the address. */
  int value(int place, int map) {
    return values[place + map];
  }

  /** Ranges that begin wherever a range of any of the maps begins. */
  private static final class Joined {
    final long[] high;
    final long[] low;
    final int[] values;
    int size;

    Joined(Ranges[] all) {
      int most = Arrays.stream(all).mapToInt(ranges -> ranges.size).sum();
      high = new long[most];
      low = new long[most];
      values = new int[most * all.length];
      int[] next = new int[all.length];
      while (true) {
        Ranges first = null;
        int at = 0;
        for (int i = 0; i < all.length; i++) {
          if (next[i] < all[i].size && (first == null || order(all[i], next[i], first, at) < 0)) {
            first = all[i];
            at = next[i];
          }
        }
        if (first == null) {
          return;
        }
        high[size] = first.high[at];
        low[size] = first.low[at];
        for (int i = 0; i < all.length; i++) {
          if (next[i] < all[i].size && order(all[i], next[i], first, at) == 0) {
            next[i]++;
          }
          values[size * all.length + i] = all[i].values[next[i] - 1];
        }
        size++;
      }
    }

    private static int order(Ranges a, int i, Ranges b, int j) {
      int order = Long.compareUnsigned(a.high[i], b.high[j]);
      return order != 0 ? order : Long.compareUnsigned(a.low[i], b.low[j]);
    }
  }
}
