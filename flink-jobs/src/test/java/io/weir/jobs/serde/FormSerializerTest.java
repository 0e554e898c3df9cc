package io.weir.jobs.serde;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.core.memory.DataOutputView;
import org.apache.flink.runtime.execution.SuppressRestartsException;
import org.junit.jupiter.api.Test;

/** State that a serializer writes by hand is read by a later version of it, or refused. */
class FormSerializerTest {
  /** A value of state, whose fields depend on the version of the jobs. */
  static final class Value {
    static int version = 1;

    long began = 1;
    int gone = 2;
    double rate = 3;
    boolean changed = true;
    long added = 4;

    void fields(Fields fields) throws IOException {
      if (version == 1) {
        began = fields.of("began", began);
        gone = fields.of("gone", gone);
      } else {
        added = fields.of("added", added);
      }
      rate = fields.of("rate", rate);
      if (version == 3) {
        began = fields.of("began", (int) began);
      } else if (version == 2) {
        began = fields.of("began", began);
      }
      changed = fields.of("changed", changed);
    }

    public static final class Serializer extends FormSerializer<Value> {
      private static final long serialVersionUID = 1;

      public Serializer() {
        super(Form.of(version == 4 ? "other" : "1").with("value", new Value()::fields));
      }

      @Override
      public void write(Value value, DataOutputView out) throws IOException {
        value.fields(Fields.to(out));
        out.writeUTF("end");
      }

      @Override
      protected Value read(DataInputView in, Form.Parts parts) throws IOException {
        Value value = new Value();
        value.fields(parts.of("value", in));
        assertEquals("end", in.readUTF());
        return value;
      }
    }
  }

  /** What an earlier version left: the format of its state, and a value. */
  private static byte[] state() throws IOException {
    Value.version = 1;
    Value value = new Value();
    value.began = 11;
    value.gone = 12;
    value.rate = 1.5;
    value.changed = false;
    DataOutputSerializer out = new DataOutputSerializer(64);
    Value.Serializer serializer = new Value.Serializer();
    TypeSerializerSnapshot.writeVersionedSnapshot(out, serializer.snapshotConfiguration());
    serializer.serialize(value, out);
    return out.getCopyOfBuffer();
  }

  private static TypeSerializerSnapshot<Value> snapshot(DataInputView in) throws IOException {
    return TypeSerializerSnapshot.readVersionedSnapshot(
        in, FormSerializerTest.class.getClassLoader());
  }

  @Test
  void aStateWithFewerAndOtherFieldsIsRead() throws IOException {
    DataInputDeserializer in = new DataInputDeserializer(state());
    Value.version = 2;
    TypeSerializerSnapshot<Value> old = snapshot(in);
    Value read = old.restoreSerializer().deserialize(in);
    assertEquals(11, read.began);
    assertEquals(1.5, read.rate);
    assertEquals(false, read.changed);
    assertEquals(4, read.added, "as the constructor set it");
    assertTrue(
        new Value.Serializer()
            .snapshotConfiguration()
            .resolveSchemaCompatibility(old)
            .isCompatibleAfterMigration());
    // A restored serializer writes what its own version does.
    DataOutputSerializer out = new DataOutputSerializer(64);
    old.restoreSerializer().serialize(read, out);
    Value again =
        new Value.Serializer().deserialize(new DataInputDeserializer(out.getCopyOfBuffer()));
    assertEquals(11, again.began);
  }

  @Test
  void theSameVersionReadsItAsItIs() throws IOException {
    DataInputDeserializer in = new DataInputDeserializer(state());
    TypeSerializerSnapshot<Value> old = snapshot(in);
    assertEquals(12, old.restoreSerializer().deserialize(in).gone);
    assertTrue(
        new Value.Serializer()
            .snapshotConfiguration()
            .resolveSchemaCompatibility(old)
            .isCompatibleAsIs());
  }

  @Test
  void anotherKindOfAFieldAndAnotherMarkAreRefused() throws IOException {
    byte[] state = state();
    for (int version : new int[] {3, 4}) {
      Value.version = version;
      String said =
          assertThrows(
                  SuppressRestartsException.class, () -> snapshot(new DataInputDeserializer(state)))
              .getCause()
              .getMessage();
      assertTrue(
          said.contains(
              version == 3
                  ? "began of value was of kind long, and is of kind int"
                  : "it has the mark '1', not 'other'"),
          said);
    }
  }
}
