package io.weir.jobs.serde;

import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * Writes an object of state by its fields, as its class declares them: numbers, text, arrays,
 * enums, records, messages, maps, sets, and other objects with a constructor without arguments.
 *
 * <p>State keeps the fields' names and kinds (a {@link Layout}), so that a later version of the
 * class can read it: it skips a field that the class no longer has, and leaves a new field as the
 * constructor set it. It refuses state in which a field's kind has changed.
 *
 * <p>A {@code transient} field is copied with its object and is not part of the state.
 */
public final class FieldSerializer<T> extends StateSerializer<T> {
  private static final long serialVersionUID = 1;

  private final Class<T> type;
  private final Layout layout;
  private final transient Kind kind;
  private final transient Kind whole;

  public FieldSerializer(Class<T> type) {
    this(type, "");
  }

  /**
   * Creates a serializer.
   *
   * @param mark changes with the meaning of the values: state with another mark is refused
   */
  public FieldSerializer(Class<T> type, String mark) {
    this(type, Layout.of(type, false).marked(mark));
  }

  FieldSerializer(Class<T> type, Layout layout) {
    this.type = type;
    this.layout = layout;
    kind = Kind.of(layout, type);
    whole = Kind.of(Layout.of(type, true), type);
  }

  Layout layout() {
    return layout;
  }

  @Override
  Class<?> named() {
    return type;
  }

  @Override
  public void write(T value, DataOutputView out) throws IOException {
    kind.write(value, out);
  }

  @Override
  public T read(DataInputView in) throws IOException {
    return type.cast(kind.read(null, in));
  }

  @Override
  public T copy(T from) {
    return type.cast(whole.copy(null, from));
  }

  @Override
  public TypeSerializerSnapshot<T> snapshotConfiguration() {
    return new FieldSnapshot<>(this);
  }

  private Object readResolve() {
    return new FieldSerializer<>(type, layout);
  }
}
