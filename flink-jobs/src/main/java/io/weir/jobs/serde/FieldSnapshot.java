package io.weir.jobs.serde;

import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSchemaCompatibility;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** Records in a checkpoint the class that {@link FieldSerializer} wrote, and its fields. */
public final class FieldSnapshot<T> implements TypeSerializerSnapshot<T> {
  private static final int VERSION = 1;

  private Class<T> type;
  private Layout layout;

  /** For restoring. */
  public FieldSnapshot() {}

  @SuppressWarnings("unchecked") // a serializer's class is that of its values
  FieldSnapshot(FieldSerializer<T> serializer) {
    type = (Class<T>) serializer.named();
    layout = serializer.layout();
  }

  @Override
  public int getCurrentVersion() {
    return VERSION;
  }

  @Override
  public void writeSnapshot(DataOutputView out) throws IOException {
    out.writeUTF(type.getName());
    layout.write(out);
  }

  @Override
  @SuppressWarnings("unchecked") // the name says of what
  public void readSnapshot(int version, DataInputView in, ClassLoader loader) throws IOException {
    if (version != VERSION) {
      throw new IOException("the state was written by another version of the jobs");
    }
    String name = in.readUTF();
    layout = Layout.read(in);
    try {
      type = (Class<T>) Class.forName(name, true, loader);
    } catch (ClassNotFoundException e) {
      throw new IOException("the state holds a " + name + ", which is not in this jar", e);
    }
  }

  @Override
  public TypeSerializer<T> restoreSerializer() {
    return new FieldSerializer<>(type, layout);
  }

  @Override
  public TypeSerializerSchemaCompatibility<T> resolveSchemaCompatibility(
      TypeSerializerSnapshot<T> old) {
    if (!(old instanceof FieldSnapshot<T> other) || other.type != type) {
      return TypeSerializerSchemaCompatibility.incompatible();
    }
    if (other.layout.equals(layout)) {
      return TypeSerializerSchemaCompatibility.compatibleAsIs();
    }
    return layout.reads(other.layout)
        ? TypeSerializerSchemaCompatibility.compatibleAfterMigration()
        : TypeSerializerSchemaCompatibility.incompatible();
  }
}
