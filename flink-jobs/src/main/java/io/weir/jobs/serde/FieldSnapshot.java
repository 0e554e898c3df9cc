package io.weir.jobs.serde;

import java.io.IOException;
import java.util.Optional;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSchemaCompatibility;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** Records in a checkpoint the class that {@link FieldSerializer} wrote, and its fields. */
public final class FieldSnapshot<T> extends NamedSnapshot<T> {
  private static final int VERSION = 1;

  private Layout layout;

  /** For restoring. */
  public FieldSnapshot() {
    super(VERSION);
  }

  FieldSnapshot(FieldSerializer<T> serializer) {
    super(VERSION, serializer.named());
    layout = serializer.layout();
  }

  @Override
  void writeFormat(DataOutputView out) throws IOException {
    layout.write(out);
  }

  @Override
  void readFormat(DataInputView in) throws IOException {
    layout = Layout.read(in);
    Optional<String> refusal = Layout.of(named(), false).marked(layout.name()).refuses(layout);
    if (refusal.isPresent()) {
      throw refused(refusal.get());
    }
  }

  @Override
  @SuppressWarnings("unchecked") // a serializer's class is that of its values
  public TypeSerializer<T> restoreSerializer() {
    return new FieldSerializer<>((Class<T>) named(), layout);
  }

  @Override
  public TypeSerializerSchemaCompatibility<T> resolveSchemaCompatibility(
      TypeSerializerSnapshot<T> old) {
    if (!(old instanceof FieldSnapshot<T> other) || other.named() != named()) {
      return TypeSerializerSchemaCompatibility.incompatible();
    }
    if (other.layout.equals(layout)) {
      return TypeSerializerSchemaCompatibility.compatibleAsIs();
    }
    Optional<String> refusal = layout.refuses(other.layout);
    if (refusal.isPresent()) {
      throw refused(refusal.get());
    }
    return TypeSerializerSchemaCompatibility.compatibleAfterMigration();
  }
}
