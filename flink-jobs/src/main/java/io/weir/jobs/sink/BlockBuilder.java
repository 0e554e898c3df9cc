package io.weir.jobs.sink;

import io.weir.jobs.table.ColumnType;
import io.weir.jobs.table.Table;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;

/**
 * Collects rows column by column and writes them as one block of ClickHouse's Native format: the
 * number of columns and rows, then for each column its name, its type and its values one after the
 * other.
 *
 * <p>A value that is never set is the type's default (0, '', empty, NULL), and needs no call; if no
 * row sets a column, the block leaves the column out and the server fills it in.
 */
public final class BlockBuilder {
  private static final VarHandle SHORTS =
      MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle INTS =
      MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle LONGS =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final int FIRST_CAPACITY = 256;

  private final Table table;
  private final Buffer[] columns;
  private int rows;
  private int capacity = FIRST_CAPACITY;

  /** Values of one column; which of the arrays are used depends on the type. */
  private static final class Buffer {
    final ColumnType type;
    final byte[] header;
    boolean used;
    byte[] data = {}; // fixed width: the values; String: the values with their lengths
    int length; // octets of data, where the width varies
    int filled; // rows that data or offsets hold, where the width varies
    byte[] nulls = {}; // Nullable: 1 where there is a value
    byte[] offsets = {}; // Map, Array: ends of the rows' elements
    long elements; // Map, Array: elements so far
    byte[] values = {}; // Map: the values
    int valuesLength;

    Buffer(Table.Column column) {
      type = column.type();
      byte[] name = column.name().getBytes(StandardCharsets.US_ASCII);
      byte[] sql = type.sql().getBytes(StandardCharsets.US_ASCII);
      header = new byte[name.length + sql.length + 2];
      header[0] = (byte) name.length;
      System.arraycopy(name, 0, header, 1, name.length);
      header[name.length + 1] = (byte) sql.length;
      System.arraycopy(sql, 0, header, name.length + 2, sql.length);
    }
  }

  public BlockBuilder(Table table) {
    this.table = table;
    columns = table.columns().stream().map(Buffer::new).toArray(Buffer[]::new);
  }

  /** Rows so far. */
  public int rows() {
    return rows;
  }

  /** Begins a row of default values. */
  public void addRow() {
    if (rows == capacity) {
      capacity *= 2;
      for (Buffer column : columns) {
        if (column.used && column.type.width() > 0) {
          column.data = Arrays.copyOf(column.data, capacity * column.type.width());
          if (column.type == ColumnType.NULLABLE_INT64) {
            column.nulls = Arrays.copyOf(column.nulls, capacity);
          }
        } else if (column.used && column.type != ColumnType.STRING) {
          column.offsets = Arrays.copyOf(column.offsets, capacity * 8);
        }
      }
    }
    rows++;
  }

  /**
   * Sets a number in the last row. It is truncated to the column's width; see {@link #saturate32}.
   */
  public void set(int index, long value) {
    if (value == 0) {
      return;
    }
    Buffer column = columns[index];
    if (!column.used) {
      use(column);
    }
    int row = rows - 1;
    switch (column.type.width()) {
      case 1 -> column.data[row] = (byte) value;
      case 2 -> SHORTS.set(column.data, row * 2, (short) value);
      case 4 -> INTS.set(column.data, row * 4, (int) value);
      case 8 -> LONGS.set(column.data, row * 8, value);
      default -> throw new IllegalArgumentException("not a number: " + column.type);
    }
  }

  /** Sets an address in the last row: two halves in network order. */
  public void setAddress(int index, long high, long low) {
    if ((high | low) == 0) {
      return;
    }
    Buffer column = columns[index];
    if (!column.used) {
      use(column);
    }
    int at = (rows - 1) * 16;
    LONGS.set(column.data, at, Long.reverseBytes(high));
    LONGS.set(column.data, at + 8, Long.reverseBytes(low));
  }

  /** Sets a number that may be absent: null unless this is called. */
  public void setNullable(int index, long value) {
    Buffer column = columns[index];
    if (!column.used) {
      use(column);
    }
    column.nulls[rows - 1] = 1;
    LONGS.set(column.data, (rows - 1) * 8, value);
  }

  /** Sets a text in the last row, given as UTF-8. */
  public void setString(int index, byte[] value) {
    if (value.length == 0) {
      return;
    }
    Buffer column = columns[index];
    use(column);
    padStrings(column, rows - 1);
    column.data = room(column.data, column.length, value.length + 5);
    column.length = varint(column.data, column.length, value.length);
    System.arraycopy(value, 0, column.data, column.length, value.length);
    column.length += value.length;
    column.filled = rows;
  }

  /** Sets a text in the last row. */
  public void setString(int index, String value) {
    if (!value.isEmpty()) {
      setString(index, value.getBytes(StandardCharsets.UTF_8));
    }
  }

  /** Sets a map of words to counts in the last row. */
  public void setMap(int index, Map<String, Long> value) {
    if (value.isEmpty()) {
      return;
    }
    Buffer column = columns[index];
    useOffsets(column);
    for (Map.Entry<String, Long> entry : value.entrySet()) {
      byte[] key = entry.getKey().getBytes(StandardCharsets.UTF_8);
      column.data = room(column.data, column.length, key.length + 5);
      column.length = varint(column.data, column.length, key.length);
      System.arraycopy(key, 0, column.data, column.length, key.length);
      column.length += key.length;
      column.values = room(column.values, column.valuesLength, 8);
      LONGS.set(column.values, column.valuesLength, (long) entry.getValue());
      column.valuesLength += 8;
    }
    column.elements += value.size();
    endRow(column);
  }

  /** Sets a list of numbers in the last row. */
  public void setArray(int index, long[] value) {
    if (value.length == 0) {
      return;
    }
    Buffer column = columns[index];
    useOffsets(column);
    column.data = room(column.data, column.length, value.length * 8);
    for (long element : value) {
      LONGS.set(column.data, column.length, element);
      column.length += 8;
    }
    column.elements += value.length;
    endRow(column);
  }

  /**
   * Sets a value of any type in the last row: Number, String, byte[] (an address), Map, long[],
   * Boolean or null.
   */
  @SuppressWarnings("unchecked")
  public void setObject(int index, Object value) {
    ColumnType type = columns[index].type;
    if (value == null) {
      return;
    }
    switch (type) {
      case STRING -> setString(index, (String) value);
      case MAP -> setMap(index, (Map<String, Long>) value);
      case ARRAY_UINT64 -> setArray(index, (long[]) value);
      case NULLABLE_INT64 -> setNullable(index, (Long) value);
      case IPV6 -> {
        byte[] address = (byte[]) value;
        setAddress(
            index,
            Long.reverseBytes((long) LONGS.get(address, 0)),
            Long.reverseBytes((long) LONGS.get(address, 8)));
      }
      case BOOL -> set(index, (Boolean) value ? 1 : 0);
      case FLOAT64 -> set(index, Double.doubleToRawLongBits((Double) value));
      default -> set(index, ((Number) value).longValue());
    }
  }

  /** Returns the rows as a block, and empties the builder. Call this only if there are rows. */
  public NativeBlock build(int partition) {
    int present = 0;
    int size = 20;
    use(columns[0]); // one at least, to tell how many rows there are
    for (Buffer column : columns) {
      if (column.used) {
        present++;
        if (column.type == ColumnType.STRING) {
          padStrings(column, rows);
        } else if (column.type.width() == 0) {
          padOffsets(column, rows);
        }
        size += column.header.length + column.length + column.valuesLength;
        size += column.type.width() * rows;
        if (column.type == ColumnType.NULLABLE_INT64) {
          size += rows;
        } else if (column.type == ColumnType.MAP || column.type == ColumnType.ARRAY_UINT64) {
          size += rows * 8;
        }
      }
    }
    byte[] out = new byte[size];
    int at = varint(out, 0, present);
    at = varint(out, at, rows);
    for (Buffer column : columns) {
      if (column.used) {
        at = append(out, at, column.header, column.header.length);
        if (column.type == ColumnType.NULLABLE_INT64) {
          for (int row = 0; row < rows; row++) {
            out[at++] = (byte) (1 - column.nulls[row]);
          }
        }
        if (column.type.width() > 0) {
          at = append(out, at, column.data, rows * column.type.width());
        } else if (column.type == ColumnType.STRING) {
          at = append(out, at, column.data, column.length);
        } else {
          at = append(out, at, column.offsets, rows * 8);
          at = append(out, at, column.data, column.length);
          at = append(out, at, column.values, column.valuesLength);
        }
      }
    }
    NativeBlock block = new NativeBlock(table, partition, rows, out, at);
    clear();
    return block;
  }

  /**
   * {@code value} as an unsigned 32-bit number; a value that does not fit becomes the largest such
   * number.
   */
  public static long saturate32(long value) {
    return (value >>> 32) == 0 ? value : 0xffff_ffffL;
  }

  private void clear() {
    for (Buffer column : columns) {
      if (column.used) {
        Arrays.fill(
            column.data, 0, Math.min(column.data.length, rows * column.type.width()), (byte) 0);
        Arrays.fill(column.nulls, 0, Math.min(column.nulls.length, rows), (byte) 0);
        column.used = false;
        column.length = 0;
        column.valuesLength = 0;
        column.filled = 0;
        column.elements = 0;
      }
    }
    rows = 0;
  }

  private void use(Buffer column) {
    column.used = true;
    int width = column.type.width();
    if (column.data.length < capacity * width) {
      column.data = Arrays.copyOf(column.data, capacity * width);
    }
    if (column.type == ColumnType.NULLABLE_INT64 && column.nulls.length < capacity) {
      column.nulls = Arrays.copyOf(column.nulls, capacity);
    }
  }

  private void useOffsets(Buffer column) {
    column.used = true;
    if (column.offsets.length < capacity * 8) {
      column.offsets = Arrays.copyOf(column.offsets, capacity * 8);
    }
    padOffsets(column, rows - 1);
  }

  private void endRow(Buffer column) {
    LONGS.set(column.offsets, (rows - 1) * 8, column.elements);
    column.filled = rows;
  }

  private void padOffsets(Buffer column, int until) {
    if (column.offsets.length < capacity * 8) {
      column.offsets = Arrays.copyOf(column.offsets, capacity * 8);
    }
    while (column.filled < until) {
      LONGS.set(column.offsets, column.filled++ * 8, column.elements);
    }
  }

  private static void padStrings(Buffer column, int until) {
    int missing = until - column.filled;
    if (missing > 0) {
      column.data = room(column.data, column.length, missing);
      Arrays.fill(column.data, column.length, column.length + missing, (byte) 0);
      column.length += missing;
      column.filled = until;
    }
  }

  private static byte[] room(byte[] data, int length, int more) {
    return length + more <= data.length
        ? data
        : Arrays.copyOf(data, Math.max(length + more, data.length * 2));
  }

  private static int append(byte[] out, int at, byte[] data, int length) {
    System.arraycopy(data, 0, out, at, length);
    return at + length;
  }

  private static int varint(byte[] out, int at, int value) {
    int rest = value;
    int next = at;
    while ((rest & ~0x7f) != 0) {
      out[next++] = (byte) (rest | 0x80);
      rest >>>= 7;
    }
    out[next++] = (byte) rest;
    return next;
  }
}
