package io.weir.jobs.serde;

import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSchemaCompatibility;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** Records in a checkpoint the {@link WireSerializer} that wrote it, and the format. */
public final class WireSnapshot<T> extends NamedSnapshot<T> {
  private static final int VERSION = 2;

  private String form;
  private WireSerializer<T> serializer;

  /** For restoring. */
  public WireSnapshot() {
    super(VERSION);
  }

  WireSnapshot(WireSerializer<T> serializer) {
    super(VERSION, serializer.named());
    this.serializer = serializer;
    form = serializer.form();
  }

  @Override
  void writeFormat(DataOutputView out) throws IOException {
    out.writeUTF(form);
  }

  @Override
  @SuppressWarnings("unchecked") // the name says of what
  void readFormat(DataInputView in) throws IOException, ReflectiveOperationException {
    form = in.readUTF();
    serializer =
        (WireSerializer<T>)
            (named().isRecord()
                ? new RecordSerializer<>(named().asSubclass(Record.class))
                : named().asSubclass(WireSerializer.class).getDeclaredConstructor().newInstance());
    String refusal = serializer.restores(form);
    if (!refusal.isEmpty()) {
      throw refused("its format is another one: " + refusal);
    }
  }

  @Override
  public TypeSerializer<T> restoreSerializer() {
    return serializer;
  }

  @Override
  public TypeSerializerSchemaCompatibility<T> resolveSchemaCompatibility(
      TypeSerializerSnapshot<T> old) {
    if (!(old instanceof WireSnapshot<T> other) || !other.serializer.equals(serializer)) {
      return TypeSerializerSchemaCompatibility.incompatible();
    }
    return other.form.equals(form)
        ? TypeSerializerSchemaCompatibility.compatibleAsIs()
        // What cannot be read was refused when its format was read.
        : TypeSerializerSchemaCompatibility.compatibleAfterMigration();
  }
}
