package io.weir.jobs.serde;

import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * Records in a checkpoint the class by which a serializer identifies the state, and the format of
 * the state. A subclass is public and has a public constructor without arguments, which a restored
 * checkpoint calls.
 */
abstract class NamedSnapshot<T> implements TypeSerializerSnapshot<T> {
  private final int version;
  private Class<?> named;

  /** For restoring; the snapshot itself is written in this version. */
  NamedSnapshot(int version) {
    this.version = version;
  }

  NamedSnapshot(int version, Class<?> named) {
    this(version);
    this.named = named;
  }

  /** The class. */
  final Class<?> named() {
    return named;
  }

  abstract void writeFormat(DataOutputView out) throws IOException;

  /** Reads what {@link #writeFormat} wrote; the class is known. */
  abstract void readFormat(DataInputView in) throws IOException, ReflectiveOperationException;

  @Override
  public final int getCurrentVersion() {
    return version;
  }

  @Override
  public final void writeSnapshot(DataOutputView out) throws IOException {
    out.writeUTF(named.getName());
    writeFormat(out);
  }

  @Override
  public final void readSnapshot(int written, DataInputView in, ClassLoader loader)
      throws IOException {
    if (written != version) {
      throw new IOException("the state was written by another version of the jobs");
    }
    String name = in.readUTF();
    try {
      named = Class.forName(name, true, loader);
      readFormat(in);
    } catch (ReflectiveOperationException e) {
      throw new IOException("the state was written by " + name + ", which is not in this jar", e);
    }
  }
}
