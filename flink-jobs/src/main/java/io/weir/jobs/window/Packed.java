package io.weir.jobs.window;

import java.util.Arrays;

/**
 * Entries of a {@link FlowTable} one after the other, without their zeros: first which of the
 * numbers are there (bit i: number i), then those. Of most flows half of them are zero.
 */
final class Packed {
  private long[] numbers = new long[64];
  private int length;
  private int entries;

  /** Entries so far. */
  int entries() {
    return entries;
  }

  /** Appends an entry. */
  void add(long[] entry, int from) {
    if (length + FlowTable.STRIDE + 1 > numbers.length) {
      numbers = Arrays.copyOf(numbers, numbers.length * 2);
    }
    int head = length++;
    long mask = 0;
    for (int i = 0; i < FlowTable.STRIDE; i++) {
      long number = entry[from + i];
      if (number != 0) {
        mask |= 1L << i;
        numbers[length++] = number;
      }
    }
    numbers[head] = mask;
    entries++;
  }

  /** What was appended, as an array of its own; begins anew. */
  long[] take() {
    long[] taken = Arrays.copyOf(numbers, length);
    length = 0;
    entries = 0;
    return taken;
  }

  /**
   * Reads the entry that begins at {@code from} into {@code entry}; returns where the next does.
   */
  static int read(long[] packed, int from, long[] entry) {
    return read(packed, from, entry, 0);
  }

  /** Reads the entry into {@code entries} from {@code to} on. */
  static int read(long[] packed, int from, long[] entries, int to) {
    int at = from;
    long mask = packed[at++];
    for (int i = to; i < to + FlowTable.STRIDE; i++) {
      entries[i] = (mask & 1) != 0 ? packed[at++] : 0;
      mask >>>= 1;
    }
    return at;
  }
}
