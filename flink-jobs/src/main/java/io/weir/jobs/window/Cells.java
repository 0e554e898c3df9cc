package io.weir.jobs.window;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;

/** The concatenated rows of one section of several digests. */
public final class Cells {
  /** An order of rows that have the same value. */
  public interface Order {
    /** Whether the row at {@code a} comes before that at {@code b}. */
    boolean before(long[] data, int a, int b);
  }

  /** Takes one list. */
  public interface ListTaker {
    /** The rows of the list with this name, the best first; {@code places} holds their offsets. */
    void take(long[] name, int[] places);
  }

  private final int stride;
  private long[] data = new long[0];

  public Cells(int stride) {
    this.stride = stride;
  }

  /** Appends rows. */
  public void add(long[] from, int start, int end) {
    int length = data.length;
    data = Arrays.copyOf(data, length + end - start);
    System.arraycopy(from, start, data, length, end - start);
  }

  /** The rows. */
  public long[] data() {
    return data;
  }

  /**
   * The best rows of each list: the first {@code name} numbers of a row identify its list, the next
   * is its value.
   */
  public void best(int limit, int name, Order order, ListTaker taker) {
    Map<long[], Best> lists = new TreeMap<>(Arrays::compare);
    for (int at = 0; at < data.length; at += stride) {
      lists
          .computeIfAbsent(
              Arrays.copyOfRange(data, at, at + name),
              key -> new Best(limit, (a, b) -> order.before(data, a, b)))
          .offer(data[at + name], at);
    }
    lists.forEach((key, best) -> taker.take(key, best.take()));
  }

  /**
   * The same for rows whose first two numbers identify the list; among equal values, the one with
   * the lower key comes first.
   *
   * @param key offset of the key in a row
   * @param length of the key, in numbers
   */
  public void best(int limit, int key, int length, ListTaker taker) {
    best(limit, 2, (rows, a, b) -> before(rows, a + key, b + key, length), taker);
  }

  /** An address in the form that tables use. */
  public static byte[] address(long[] data, int at) {
    return ByteBuffer.allocate(16).putLong(data[at]).putLong(data[at + 1]).array();
  }

  /** Whether the key at {@code a} comes before that at {@code b}. */
  public static boolean before(long[] data, int a, int b, int length) {
    return before(data, a, data, b, length);
  }

  /** Whether the key at {@code atA} of {@code a} comes before that at {@code atB} of {@code b}. */
  public static boolean before(long[] a, int atA, long[] b, int atB, int length) {
    int difference = Arrays.mismatch(a, atA, atA + length, b, atB, atB + length);
    return difference >= 0 && Long.compareUnsigned(a[atA + difference], b[atB + difference]) < 0;
  }
}
