package io.weir.jobs.serde;

import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.EnumSerializer;
import org.apache.flink.api.common.typeutils.base.ListSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * Writes the components of a record one after the other: values of {@link Kind#PLAIN}, enums,
 * records, and lists of these. None may be null.
 */
public final class RecordSerializer<T extends Record> extends WireSerializer<T> {
  private static final long serialVersionUID = 1;

  private final Class<T> type;
  private final transient Constructor<T> constructor;
  private final transient List<Part> parts;

  /** A component: how to read it from the record, and how to write it. */
  private record Part(Method accessor, TypeSerializer<Object> serializer) {}

  RecordSerializer(Class<T> type) {
    this.type = type;
    RecordComponent[] components = type.getRecordComponents();
    Class<?>[] types =
        Arrays.stream(components).map(RecordComponent::getType).toArray(Class<?>[]::new);
    try {
      constructor = type.getDeclaredConstructor(types);
    } catch (NoSuchMethodException e) {
      throw new IllegalStateException(e); // each record has one
    }
    constructor.setAccessible(true);
    parts = Arrays.stream(components).map(RecordSerializer::part).toList();
  }

  private static Part part(RecordComponent component) {
    component.getAccessor().setAccessible(true);
    return new Part(component.getAccessor(), serializer(component.getGenericType()));
  }

  @SuppressWarnings({"unchecked", "rawtypes"}) // a component's type and its serializer's agree
  private static TypeSerializer<Object> serializer(Type of) {
    TypeSerializer<?> found =
        of instanceof Class<?> plain ? Kind.PLAIN.get(plain.getSimpleName()) : null;
    if (of instanceof ParameterizedType list && list.getRawType() == List.class) {
      found = new ListSerializer<>(serializer(list.getActualTypeArguments()[0]));
    } else if (of instanceof Class<?> named && named.isRecord()) {
      found = new RecordSerializer<>(named.asSubclass(Record.class));
    } else if (of instanceof Class<?> named && named.isEnum()) {
      found = new EnumSerializer(named);
    }
    if (found == null) {
      throw new IllegalArgumentException("a record of a " + of);
    }
    return (TypeSerializer<Object>) found;
  }

  @Override
  public void write(T value, DataOutputView out) throws IOException {
    for (Part part : parts) {
      try {
        part.serializer.serialize(part.accessor.invoke(value), out);
      } catch (ReflectiveOperationException e) {
        throw new IOException(e);
      }
    }
  }

  @Override
  public T read(DataInputView in) throws IOException {
    Object[] values = new Object[parts.size()];
    for (int i = 0; i < values.length; i++) {
      values[i] = parts.get(i).serializer.deserialize(in);
    }
    try {
      return constructor.newInstance(values);
    } catch (ReflectiveOperationException e) {
      throw new IOException(e);
    }
  }

  /** The components with their types. */
  @Override
  protected String form() {
    return form(type);
  }

  private static String form(Type of) {
    if (of instanceof ParameterizedType list) {
      return "List of " + form(list.getActualTypeArguments()[0]);
    }
    Class<?> named = (Class<?>) of;
    if (named.isEnum()) {
      return Arrays.toString(named.getEnumConstants());
    }
    return !named.isRecord()
        ? named.getSimpleName()
        : Arrays.stream(named.getRecordComponents())
            .map(one -> one.getName() + " " + form(one.getGenericType()))
            .collect(Collectors.joining(", ", "(", ")"));
  }

  @Override
  Class<?> named() {
    return type;
  }

  private Object readResolve() {
    return new RecordSerializer<>(type);
  }
}
