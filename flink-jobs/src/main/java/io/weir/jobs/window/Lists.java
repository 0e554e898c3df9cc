package io.weir.jobs.window;

import io.weir.jobs.serde.WireSerializer;
import io.weir.jobs.sink.Table;
import io.weir.jobs.sink.TableRow;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;
import org.apache.flink.util.Collector;

/**
 * What was written of one window: its version, and how long each list was, so that where a list has
 * become shorter what stood at its end is written over.
 */
final class Lists {
  private int version;
  private final Map<String, Integer> lengths = new TreeMap<>();

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
    Map<String, Integer> before = new HashMap<>(lengths);
    for (RowList list : lists) {
      String name = list.table() + "/" + list.name();
      Integer known = before.remove(name);
      int length = list.rows().size();
      for (int i = 0; i < Math.max(length, known == null ? 0 : known); i++) {
        Object[] cells = i < length ? list.rows().get(i) : list.empty().clone();
        Table table = list.table();
        cells[table.index("ts")] = window / 1000;
        cells[table.index("window_s")] = windowMs / 1000;
        cells[table.index("probe")] = probe;
        cells[table.index("rank")] = i + 1;
        cells[table.index("version")] = version;
        cells[table.index("probes_reported")] = reported;
        cells[table.index("probes_expected")] = expected;
        out.collect(new TableRow(table, cells));
      }
      if (length > 0) {
        lengths.put(name, Math.max(length, known == null ? 0 : known));
      }
    }
  }

  /** Writes a {@link Lists}. */
  public static final class Serializer extends WireSerializer<Lists> {
    private static final long serialVersionUID = 1;

    @Override
    public boolean isImmutableType() {
      return false;
    }

    @Override
    public Lists copy(Lists from) {
      Lists copy = new Lists();
      copy.version = from.version;
      copy.lengths.putAll(from.lengths);
      return copy;
    }

    @Override
    public void write(Lists lists, DataOutputView out) throws IOException {
      out.writeInt(lists.version);
      out.writeInt(lists.lengths.size());
      for (Map.Entry<String, Integer> entry : lists.lengths.entrySet()) {
        out.writeUTF(entry.getKey());
        out.writeInt(entry.getValue());
      }
    }

    @Override
    public Lists read(DataInputView in) throws IOException {
      Lists lists = new Lists();
      lists.version = in.readInt();
      for (int left = in.readInt(); left > 0; left--) {
        lists.lengths.put(in.readUTF(), in.readInt());
      }
      return lists;
    }
  }
}
