package io.weir.jobs.serde;

import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSchemaCompatibility;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** Records in a checkpoint the {@link WireSerializer} that wrote it, and the format. */
public final class WireSnapshot<T> implements TypeSerializerSnapshot<T> {
  private static final int VERSION = 2;

  private WireSerializer<T> serializer;
  private String form;

  /** For restoring. */
  public WireSnapshot() {}

  WireSnapshot(WireSerializer<T> serializer) {
    this.serializer = serializer;
    form = serializer.form();
  }

  @Override
  public int getCurrentVersion() {
    return VERSION;
  }

  @Override
  public void writeSnapshot(DataOutputView out) throws IOException {
    out.writeUTF(serializer.named().getName());
    out.writeUTF(form);
  }

  @Override
  @SuppressWarnings("unchecked") // the name says of what
  public void readSnapshot(int version, DataInputView in, ClassLoader loader) throws IOException {
    if (version != VERSION) {
      throw new IOException("the state was written by an earlier version of the jobs");
    }
    String name = in.readUTF();
    form = in.readUTF();
    try {
      Class<?> named = Class.forName(name, true, loader);
      serializer =
          (WireSerializer<T>)
              (named.isRecord()
                  ? new RecordSerializer<>(named.asSubclass(Record.class))
                  : named.asSubclass(WireSerializer.class).getDeclaredConstructor().newInstance());
    } catch (ReflectiveOperationException e) {
      throw new IOException("the state was written by " + name + ", which is not in this jar", e);
    }
  }

  @Override
  public TypeSerializer<T> restoreSerializer() {
    return serializer;
  }

  @Override
  public TypeSerializerSchemaCompatibility<T> resolveSchemaCompatibility(
      TypeSerializerSnapshot<T> old) {
    return old instanceof WireSnapshot<T> other
            && other.serializer.equals(serializer)
            && other.form.equals(form)
        ? TypeSerializerSchemaCompatibility.compatibleAsIs()
        : TypeSerializerSchemaCompatibility.incompatible();
  }
}
