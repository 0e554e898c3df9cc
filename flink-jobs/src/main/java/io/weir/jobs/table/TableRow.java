package io.weir.jobs.table;

import io.weir.jobs.serde.Form;
import io.weir.jobs.serde.Octets;
import io.weir.jobs.serde.WireSerializer;
import io.weir.jobs.serde.WireType;
import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * One row of a table that gets few rows: {@code cells} in the order of {@link Table#columns()},
 * each of a kind that {@link BlockBuilder#setObject} takes. The many rows of {@code flows} never
 * take this form.
 */
public record TableRow(Table table, Object[] cells) {
  public static final WireType<TableRow> TYPE = new WireType<>(TableRow.class, new Serializer());

  /** Start of the row's interval or window, seconds from 1970. */
  public long ts() {
    return ((Number) cells[0]).longValue();
  }

  /** The value of a column. */
  public Object get(String column) {
    return cells[table.index(column)];
  }

  /** Writes rows of state. */
  public static final Serializer STATE = new Serializer();

  /** The format of a row in state: the columns of each table, by its id. */
  public static Form format() {
    Form form = Form.of("rows 1");
    for (Table table : Table.all()) {
      form.with(
          part(table.id()),
          table.columns().stream()
              .map(column -> new Form.Field(column.name(), column.type().kind()))
              .toList());
    }
    return form;
  }

  private static String part(int table) {
    return "table " + table;
  }

  /**
   * Reads a row of state, in which the table may have had other columns: a new one gets the initial
   * value of its type. Null if the table is gone.
   */
  public static TableRow read(DataInputView in, Form.Parts parts) throws IOException {
    int id = in.readByte();
    Table table = Table.of(id);
    Object[] cells =
        table == null
            ? null
            : table.columns().stream().map(column -> column.type().initial()).toArray();
    for (Form.Field column : parts.fields(part(id))) {
      Object cell = Serializer.readCell(in);
      if (table != null && table.has(column.name())) {
        table.set(cells, column.name(), cell);
      }
    }
    return table == null ? null : new TableRow(table, cells);
  }

  /** Writes a {@link TableRow}; only used where operators are not chained. */
  public static final class Serializer extends WireSerializer<TableRow> {
    private static final long serialVersionUID = 1;

    @Override
    public void write(TableRow row, DataOutputView out) throws IOException {
      out.writeByte(row.table.id());
      for (Object cell : row.cells) {
        if (cell == null) {
          out.writeByte(0);
        } else if (cell instanceof Double number) {
          out.writeByte(6);
          out.writeDouble(number);
        } else if (cell instanceof Number number) {
          out.writeByte(1);
          out.writeLong(number.longValue());
        } else if (cell instanceof String text) {
          out.writeByte(2);
          out.writeUTF(text);
        } else if (cell instanceof byte[] bytes) {
          out.writeByte(3);
          Octets.write(bytes, out);
        } else if (cell instanceof Map<?, ?> map) {
          out.writeByte(4);
          out.writeInt(map.size());
          for (Map.Entry<?, ?> entry : map.entrySet()) {
            out.writeUTF((String) entry.getKey());
            out.writeLong((Long) entry.getValue());
          }
        } else if (cell instanceof long[] numbers) {
          out.writeByte(5);
          out.writeInt(numbers.length);
          for (long number : numbers) {
            out.writeLong(number);
          }
        } else if (cell instanceof Boolean flag) {
          out.writeByte(7);
          out.writeBoolean(flag);
        } else {
          throw new IOException("no column holds a " + cell.getClass());
        }
      }
    }

    @Override
    public TableRow read(DataInputView in) throws IOException {
      Table table = Table.of(in.readByte());
      Object[] cells = new Object[table.columns().size()];
      for (int i = 0; i < cells.length; i++) {
        cells[i] = readCell(in);
      }
      return new TableRow(table, cells);
    }

    private static Object readCell(DataInputView in) throws IOException {
      byte kind = in.readByte();
      switch (kind) {
        case 0:
          return null;
        case 1:
          return in.readLong();
        case 2:
          return in.readUTF();
        case 3:
          return Octets.read(in);
        case 4:
          Map<String, Long> map = new TreeMap<>();
          for (int left = in.readInt(); left > 0; left--) {
            map.put(in.readUTF(), in.readLong());
          }
          return map;
        case 5:
          long[] numbers = new long[in.readInt()];
          for (int i = 0; i < numbers.length; i++) {
            numbers[i] = in.readLong();
          }
          return numbers;
        case 6:
          return in.readDouble();
        case 7:
          return in.readBoolean();
        default:
          throw new IOException("no cell of kind " + kind);
      }
    }
  }
}
