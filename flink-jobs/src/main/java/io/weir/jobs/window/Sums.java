package io.weir.jobs.window;

import java.util.Arrays;

/**
 * Sums by a key of two numbers: an open hash table whose entries are contiguous in one array, in
 * the order in which their keys were added, so that writing the table means writing the array.
 */
public final class Sums {
  /** Numbers of the key. */
  public static final int KEY = 2;

  private final int stride;
  private long[] cells;
  private int[] slots; // 1 + number of the entry; 0 is free
  private int size;

  /** Creates a table with this many sums for each key. */
  public Sums(int values) {
    stride = KEY + values;
    cells = new long[16 * stride];
    slots = new int[32];
  }

  /** Distinct keys. */
  public int size() {
    return size;
  }

  /** Numbers of an entry: the key and its sums. */
  public int stride() {
    return stride;
  }

  /** The entries; only the first {@code size() * stride()} numbers count. */
  public long[] cells() {
    return cells;
  }

  /**
   * Removes all entries, and releases the memory of a large table, at a cost proportional to their
   * number.
   */
  public void clear() {
    if (slots.length > 64 && size < slots.length / 16) {
      cells = new long[16 * stride];
      slots = new int[32];
    } else {
      Arrays.fill(slots, 0);
    }
    size = 0;
  }

  /**
   * The beginning of a key's entry in {@link #cells}; if there is none, adds one with all sums
   * zero.
   */
  public int at(long high, long low) {
    if ((size + 1) * 2 > slots.length) {
      grow();
    }
    int slot = slot(high, low);
    if (slots[slot] != 0) {
      return (slots[slot] - 1) * stride;
    }
    int at = size * stride;
    if (at == cells.length) {
      cells = Arrays.copyOf(cells, cells.length * 2);
    }
    cells[at] = high;
    cells[at + 1] = low;
    Arrays.fill(cells, at + KEY, at + stride, 0);
    slots[slot] = ++size;
    return at;
  }

  /** Adds to one of the sums of a key. */
  public void add(long high, long low, int value, long amount) {
    int at = at(high, low); // which may make the cells anew
    cells[at + KEY + value] += amount;
  }

  /** One of the sums of a key, 0 if there is none. */
  public long get(long high, long low, int value) {
    int at = find(high, low);
    return at < 0 ? 0 : cells[at + KEY + value];
  }

  /** The beginning of a key's entry, negative if there is none. */
  public int find(long high, long low) {
    return (slots[slot(high, low)] - 1) * stride;
  }

  /** The slot of a key: that of its entry, or the free one where it would be. */
  private int slot(long high, long low) {
    int mask = slots.length - 1;
    int slot = SecretHash.of(high, low) & mask;
    while (slots[slot] != 0) {
      int at = (slots[slot] - 1) * stride;
      if (cells[at + 1] == low && cells[at] == high) {
        break;
      }
      slot = slot + 1 & mask;
    }
    return slot;
  }

  /** Adds {@code factor} times the entries that lie in {@code from}, each of {@link #stride}. */
  public void addAll(long[] from, int start, int end, int factor) {
    for (int i = start; i < end; i += stride) {
      int at = at(from[i], from[i + 1]);
      for (int value = KEY; value < stride; value++) {
        cells[at + value] += factor * from[i + value];
      }
    }
  }

  /** A copy of the entries as an array. */
  public long[] toArray() {
    return Arrays.copyOf(cells, size * stride);
  }

  private void grow() {
    slots = new int[slots.length * 2];
    int mask = slots.length - 1;
    for (int entry = 0; entry < size; entry++) {
      int slot = SecretHash.of(cells[entry * stride], cells[entry * stride + 1]) & mask;
      while (slots[slot] != 0) {
        slot = slot + 1 & mask;
      }
      slots[slot] = entry + 1;
    }
  }
}
