package io.weir.jobs.serde;

import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSchemaCompatibility;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** Remembers in a checkpoint which {@link WireSerializer} wrote it: the name of its class. */
public final class WireSnapshot<T> implements TypeSerializerSnapshot<T> {
  private WireSerializer<T> serializer;

  /** For restoring. */
  public WireSnapshot() {}

  WireSnapshot(WireSerializer<T> serializer) {
    this.serializer = serializer;
  }

  @Override
  public int getCurrentVersion() {
    return 1;
  }

  @Override
  public void writeSnapshot(DataOutputView out) throws IOException {
    out.writeUTF(serializer.getClass().getName());
  }

  @Override
  @SuppressWarnings("unchecked")
  public void readSnapshot(int version, DataInputView in, ClassLoader loader) throws IOException {
    String name = in.readUTF();
    try {
      serializer =
          (WireSerializer<T>)
              Class.forName(name, true, loader)
                  .asSubclass(WireSerializer.class)
                  .getDeclaredConstructor()
                  .newInstance();
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
            && other.serializer.getClass() == serializer.getClass()
        ? TypeSerializerSchemaCompatibility.compatibleAsIs()
        : TypeSerializerSchemaCompatibility.incompatible();
  }
}
