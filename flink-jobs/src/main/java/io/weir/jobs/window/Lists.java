package io.weir.jobs.window;

import io.weir.jobs.serde.Fields;
import io.weir.jobs.serde.Form;
import io.weir.jobs.serde.FormSerializer;
import io.weir.jobs.table.Table;
import io.weir.jobs.table.TableRow;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;
import org.apache.flink.util.Collector;

/**
 * The rows written for one window: its version, and the length of each list, so that the end of a
 * list that became shorter or disappeared is overwritten.
 */
final class Lists {
  /** A written list: its greatest number of rows, and the row that replaces a removed one. */
  private record Written(int length, TableRow empty) {}

  private int version;
  private final Map<String, Written> written = new TreeMap<>();

  /** Writes all lists as the next version. */
  void write(
      List<RowList> lists,
      long window,
      long windowMs,
      String probe,
      int reported,
      int expected,
      Collector<TableRow> out) {
    version++;
    Map<String, RowList> all = new LinkedHashMap<>();
    for (RowList list : lists) {
      all.put(list.table() + "/" + list.name(), list);
    }
    written.forEach(
        (name, list) ->
            all.putIfAbsent(
                name, new RowList(list.empty.table(), name, List.of(), list.empty.cells())));
    for (Map.Entry<String, RowList> entry : all.entrySet()) {
      RowList list = entry.getValue();
      Table table = list.table();
      Written before = written.get(entry.getKey());
      int length = list.rows().size();
      int most = Math.max(length, before == null ? 0 : before.length);
      for (int i = 0; i < most; i++) {
        Object[] cells = i < length ? list.rows().get(i) : list.empty().clone();
        cells[table.index("ts")] = window / 1000;
        cells[table.index("window_s")] = windowMs / 1000;
        cells[table.index("probe")] = probe;
        cells[table.index("rank")] = i + 1;
        cells[table.index("version")] = version;
        cells[table.index("probes_reported")] = reported;
        cells[table.index("probes_expected")] = expected;
        out.collect(new TableRow(table, cells));
      }
      if (most > 0) {
        written.put(entry.getKey(), new Written(most, new TableRow(table, list.empty())));
      }
    }
  }

  private void fields(Fields fields) throws IOException {
    version = fields.of("version", version);
  }

  /** The format in which it is written. */
  static Form form() {
    return Form.of("2").with("lists", new Lists()::fields).with(TableRow.format());
  }

  static Lists read(DataInputView in, Form.Parts parts) throws IOException {
    Lists lists = new Lists();
    lists.fields(parts.of("lists", in));
    for (int left = in.readInt(); left > 0; left--) {
      String name = in.readUTF();
      int length = in.readInt();
      TableRow empty = TableRow.read(in, parts);
      if (empty != null) {
        lists.written.put(name, new Written(length, empty));
      }
    }
    return lists;
  }

  /** Writes a {@link Lists}. */
  public static final class Serializer extends FormSerializer<Lists> {
    private static final long serialVersionUID = 1;

    public Serializer() {
      super(Lists.form());
    }

    @Override
    public Lists copy(Lists from) {
      Lists copy = new Lists();
      copy.version = from.version;
      copy.written.putAll(from.written); // whose values are never changed
      return copy;
    }

    @Override
    public void write(Lists lists, DataOutputView out) throws IOException {
      lists.fields(Fields.to(out));
      out.writeInt(lists.written.size());
      for (Map.Entry<String, Written> entry : lists.written.entrySet()) {
        out.writeUTF(entry.getKey());
        out.writeInt(entry.getValue().length);
        TableRow.STATE.write(entry.getValue().empty, out);
      }
    }

    @Override
    protected Lists read(DataInputView in, Form.Parts parts) throws IOException {
      return Lists.read(in, parts);
    }
  }
}
