package io.weir.jobs.serde;

import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.core.memory.DataOutputView;

/**
 * A serializer written by hand: two methods, no reflection, no Kryo. Subclasses are stateless,
 * public and have a public constructor without arguments, which a restored checkpoint calls.
 */
public abstract class WireSerializer<T> extends TypeSerializer<T> {
  private static final long serialVersionUID = 1;

  /** Writes {@code value}. */
  public abstract void write(T value, DataOutputView out) throws IOException;

  /** Reads what {@link #write} wrote. */
  public abstract T read(DataInputView in) throws IOException;

  /**
   * Whether values are never changed after they were made, so that a copy may be the value itself.
   */
  @Override
  public boolean isImmutableType() {
    return true;
  }

  /** A copy of a value that may be changed, by writing and reading it. */
  protected final T rewritten(T value) {
    try {
      DataOutputSerializer out = new DataOutputSerializer(4096);
      write(value, out);
      return read(new DataInputDeserializer(out.getSharedBuffer(), 0, out.length()));
    } catch (IOException e) {
      throw new IllegalStateException(e); // nothing but memory is written to
    }
  }

  @Override
  public TypeSerializer<T> duplicate() {
    return this;
  }

  @Override
  public T createInstance() {
    return null;
  }

  @Override
  public T copy(T from) {
    return from;
  }

  @Override
  public T copy(T from, T reuse) {
    return copy(from);
  }

  @Override
  public int getLength() {
    return -1;
  }

  @Override
  public void serialize(T value, DataOutputView out) throws IOException {
    write(value, out);
  }

  @Override
  public T deserialize(DataInputView in) throws IOException {
    return read(in);
  }

  @Override
  public T deserialize(T reuse, DataInputView in) throws IOException {
    return read(in);
  }

  @Override
  public void copy(DataInputView in, DataOutputView out) throws IOException {
    write(read(in), out);
  }

  @Override
  @SuppressWarnings(
      "EqualsGetClass") // subclasses without state are equal when they are of one class
  public boolean equals(Object other) {
    return other != null && other.getClass() == getClass();
  }

  @Override
  public int hashCode() {
    return getClass().hashCode();
  }

  @Override
  public TypeSerializerSnapshot<T> snapshotConfiguration() {
    return new WireSnapshot<>(this);
  }
}
