package io.weir.jobs.window;

import java.util.Arrays;

/**
 * Tables of numbers, one after the other in one array: for each table its name (a number), the
 * length of a row, the number of rows, and then the rows.
 */
public final class Sections {
  /** Reads one section. */
  public interface Reader {
    /** The rows of {@code section} lie in {@code data} from {@code start} to {@code end}. */
    void section(int section, long[] data, int start, int end, int stride);
  }

  private long[] data = new long[64];
  private int length;
  private int head;

  /** Begins a section. */
  public void begin(int section, int stride) {
    head = length;
    add(section);
    add(stride);
    add(0);
  }

  /** Appends a number to the row. */
  public void add(long number) {
    if (length == data.length) {
      data = Arrays.copyOf(data, length * 2);
    }
    data[length++] = number;
  }

  /** Appends numbers to the row. */
  public void add(long[] from, int start, int count) {
    if (length + count > data.length) {
      data = Arrays.copyOf(data, Math.max(length + count, data.length * 2));
    }
    System.arraycopy(from, start, data, length, count);
    length += count;
  }

  /** Ends the section. */
  public void end() {
    int numbers = length - head - 3;
    int stride = (int) data[head + 1];
    if (numbers % stride != 0) {
      throw new IllegalStateException(numbers + " numbers in rows of " + stride);
    }
    data[head + 2] = numbers / stride;
  }

  /** All sections. */
  public long[] toArray() {
    return Arrays.copyOf(data, length);
  }

  /** Reads what {@link #toArray} gave. */
  public static void read(long[] data, Reader reader) {
    for (int at = 0; at < data.length; ) {
      int stride = (int) data[at + 1];
      int end = at + 3 + stride * (int) data[at + 2];
      reader.section((int) data[at], data, at + 3, end, stride);
      at = end;
    }
  }
}
