package io.weir.jobs.window;

import java.util.Arrays;

/**
 * The largest of many values, with their keys: a heap of fixed size with the smallest at the top.
 * Among equal values, the one that {@link Order} puts first counts as larger.
 */
public final class Best {
  /** An order of keys for equal values, so that a list does not depend on arrival. */
  public interface Order {
    /** Whether {@code a} comes before {@code b} if their values are equal. */
    boolean before(int a, int b);
  }

  private final int limit;
  private final Order order;
  private long[] values;
  private int[] items;
  private int size;

  public Best(int limit, Order order) {
    this.limit = limit;
    this.order = order;
    values = new long[Math.min(limit, 16)];
    items = new int[Math.min(limit, 16)];
  }

  /** Offers a value; values of 0 and less are ignored. */
  public void offer(long value, int item) {
    if (value <= 0) {
      return;
    }
    if (size < limit) {
      if (size == values.length) {
        values = Arrays.copyOf(values, Math.min(limit, size * 2));
        items = Arrays.copyOf(items, values.length);
      }
      int child = size++;
      while (child > 0 && above(values[(child - 1) / 2], items[(child - 1) / 2], value, item)) {
        values[child] = values[(child - 1) / 2];
        items[child] = items[(child - 1) / 2];
        child = (child - 1) / 2;
      }
      values[child] = value;
      items[child] = item;
    } else if (value >= values[0] && above(value, item, values[0], items[0])) {
      sink(value, item);
    }
  }

  /**
   * The smallest value in a full list, 0 while there is room; smaller values need not be offered.
   */
  public long least() {
    return size < limit ? 0 : values[0];
  }

  /** The key of the smallest value of a full list, -1 while there is room. */
  public int last() {
    return size < limit ? -1 : items[0];
  }

  /** How many there are. */
  public int size() {
    return size;
  }

  /** The keys, in descending order of their values. Empties the list. */
  public int[] take() {
    int[] sorted = new int[size];
    while (size > 0) {
      sorted[size - 1] = items[0];
      size--;
      long value = values[size];
      int item = items[size];
      if (size > 0) {
        sink(value, item);
      }
    }
    return sorted;
  }

  private boolean above(long valueA, int a, long valueB, int b) {
    return valueA != valueB ? valueA > valueB : order.before(a, b);
  }

  private void sink(long value, int item) {
    int parent = 0;
    while (true) {
      int child = 2 * parent + 1;
      if (child >= size) {
        break;
      }
      if (child + 1 < size
          && above(values[child], items[child], values[child + 1], items[child + 1])) {
        child++;
      }
      if (!above(value, item, values[child], items[child])) {
        break;
      }
      values[parent] = values[child];
      items[parent] = items[child];
      parent = child;
    }
    values[parent] = value;
    items[parent] = item;
  }
}
