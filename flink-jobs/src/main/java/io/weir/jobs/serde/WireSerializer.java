package io.weir.jobs.serde;

import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * A serializer that needs only two methods, without Kryo. Subclasses other than {@link
 * RecordSerializer} are stateless, public and have a public constructor without arguments, which a
 * restored checkpoint calls.
 */
public abstract class WireSerializer<T> extends TypeSerializer<T> {
  private static final long serialVersionUID = 1;

  /** Writes {@code value}. */
  public abstract void write(T value, DataOutputView out) throws IOException;

  /** Reads what {@link #write} wrote. */
  public abstract T read(DataInputView in) throws IOException;

  /** Values never change after they are created, so a copy may be the value itself. */
  @Override
  public boolean isImmutableType() {
    return true;
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

  /** The class by which state identifies it: its own, or that of the record that it writes. */
  Class<?> named() {
    return getClass();
  }

  /**
   * A description of the format that changes with the format: state in another format is refused.
   */
  protected String form() {
    return "1";
  }

  /**
   * Prepares a serializer that was just created to read state in the format {@code form}. Returns
   * why it cannot; empty if it can.
   */
  String restores(String form) {
    return form.equals(form()) ? "" : "it is '" + form + "', not '" + form() + "'";
  }

  @Override
  public final boolean equals(Object other) {
    return other instanceof WireSerializer<?> that && that.named() == named();
  }

  @Override
  public final int hashCode() {
    return named().hashCode();
  }

  @Override
  public TypeSerializerSnapshot<T> snapshotConfiguration() {
    return new WireSnapshot<>(this);
  }
}
