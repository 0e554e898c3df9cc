package io.weir.jobs.table;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.weir.jobs.serde.Form;
import io.weir.jobs.serde.FormSerializer;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.core.memory.DataOutputView;
import org.junit.jupiter.api.Test;

/** A row of state is read by a version whose tables have other columns. */
class StateRowTest {
  private static final Object[] CELLS = {
    1L, 10_000L, "alpha", 3L, "set", "label", 4L, 5L,
  };

  /** The columns that the version had which wrote the state. */
  private static List<Form.Field> before = List.of();

  public static final class Serializer extends FormSerializer<TableRow> {
    private static final long serialVersionUID = 1;

    public Serializer() {
      super(before.isEmpty() ? TableRow.format() : Form.of("rows 1").with("table 7", before));
    }

    @Override
    public void write(TableRow row, DataOutputView out) throws IOException {
      TableRow.STATE.write(row, out);
    }

    @Override
    protected TableRow read(DataInputView in, Form.Parts parts) throws IOException {
      return TableRow.read(in, parts);
    }
  }

  private static TableRow read(List<Form.Field> columns, Object... cells) throws IOException {
    before = columns;
    DataOutputSerializer out = new DataOutputSerializer(64);
    TypeSerializerSnapshot.writeVersionedSnapshot(out, new Serializer().snapshotConfiguration());
    new Serializer().write(new TableRow(Table.COUNTERS, cells), out);
    out.writeUTF("next");
    before = List.of();
    DataInputDeserializer in = new DataInputDeserializer(out.getCopyOfBuffer());
    TypeSerializer<TableRow> serializer =
        TypeSerializerSnapshot.<TableRow>readVersionedSnapshot(
                in, StateRowTest.class.getClassLoader())
            .restoreSerializer();
    TableRow row = serializer.deserialize(in);
    assertEquals("next", in.readUTF());
    return row;
  }

  private static List<Form.Field> columns() {
    return new ArrayList<>(
        Table.COUNTERS.columns().stream()
            .map(column -> new Form.Field(column.name(), column.type().kind()))
            .toList());
  }

  @Test
  void aColumnThatIsNewHasTheInitialValueOfItsType() throws IOException {
    List<Form.Field> columns = columns();
    columns.remove(Table.COUNTERS.index("packets"));
    columns.remove(Table.COUNTERS.index("label"));
    columns.add(0, new Form.Field("gone", "text"));
    TableRow row = read(columns, "x", 1L, 10_000L, "alpha", 3L, "set", 5L);
    assertArrayEquals(new Object[] {1L, 10_000L, "alpha", 3L, "set", "", 0L, 5L}, row.cells());
  }

  @Test
  void aRowIsReadAsItWasWritten() throws IOException {
    assertArrayEquals(CELLS, read(columns(), CELLS).cells());
  }

  @Test
  void aTableThatIsGoneIsPassedOver() throws IOException {
    TableRow row = new TableRow(new Table(126, "gone", false, List.of()), new Object[] {});
    DataOutputSerializer out = new DataOutputSerializer(64);
    TableRow.STATE.write(row, out);
    assertNull(new Serializer().read(new DataInputDeserializer(out.getCopyOfBuffer())));
  }
}
