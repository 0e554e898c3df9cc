package io.weir.jobs.serde;

import com.google.protobuf.MessageLite;
import com.google.protobuf.Parser;
import java.io.IOException;
import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.BooleanSerializer;
import org.apache.flink.api.common.typeutils.base.DoubleSerializer;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * Writes, reads and copies values of one {@link Layout}. Only messages may be null. Records and map
 * keys never change, nor do arrays within them.
 */
abstract class Kind {
  /** The types whose values are written as a whole, by the simple name of their class. */
  static final Map<String, TypeSerializer<?>> PLAIN =
      Map.of(
          "int", IntSerializer.INSTANCE,
          "Integer", IntSerializer.INSTANCE,
          "long", LongSerializer.INSTANCE,
          "Long", LongSerializer.INSTANCE,
          "boolean", BooleanSerializer.INSTANCE,
          "double", DoubleSerializer.INSTANCE,
          "String", StringSerializer.INSTANCE,
          "byte[]", BytePrimitiveArraySerializer.INSTANCE,
          "long[]", new Longs.Serializer());

  abstract void write(Object value, DataOutputView out) throws IOException;

  /**
   * Reads a value; fills an existing object ({@code known}), and leaves in a container only the
   * elements that it read.
   */
  abstract Object read(Object known, DataInputView in) throws IOException;

  /**
   * An independent copy of {@code value}; fills an existing object ({@code known}), and leaves in a
   * container only the elements of {@code value}.
   */
  Object copy(Object known, Object value) {
    return value;
  }

  /** Copies a field from one object to another. */
  void copy(Field field, Object from, Object to) throws IllegalAccessException {
    Object before = field.get(to);
    Object copy = copy(before, field.get(from));
    if (copy != before) {
      field.set(to, copy);
    }
  }

  void write(Field field, Object from, DataOutputView out)
      throws IOException, IllegalAccessException {
    write(field.get(from), out);
  }

  void read(Field field, Object to, DataInputView in) throws IOException, IllegalAccessException {
    Object before = field.get(to);
    Object read = read(before, in);
    if (read != before) {
      field.set(to, read);
    }
  }

  /** For values of {@code type}; if that is null, skips them. */
  static Kind of(Layout layout, Type type) {
    return switch (layout.what()) {
      case Layout.OBJECT -> new OfObject(layout, type == null ? null : raw(type));
      case Layout.MAP -> new OfMap(layout, type);
      case Layout.SET -> new OfSet(layout, type);
      case Layout.MESSAGE -> new OfMessage(type == null ? null : raw(type));
      case Layout.ENUM -> new OfEnum(type == null ? null : raw(type));
      case Layout.RECORD -> new OfRecord(layout, type == null ? null : raw(type));
      case "long" -> new OfLong();
      default -> new Plain(PLAIN.get(layout.what()));
    };
  }

  /**
   * @throws IllegalArgumentException if the type is not that of a class, but a type variable, for
   *     example
   */
  static Class<?> raw(Type type) {
    if (!((type instanceof ParameterizedType of ? of.getRawType() : type)
        instanceof Class<?> raw)) {
      throw new IllegalArgumentException("state: " + type.getTypeName() + " names no class");
    }
    return raw;
  }

  private static Type argument(Type type, int place) {
    return type == null ? null : ((ParameterizedType) type).getActualTypeArguments()[place];
  }

  /**
   * An object or container that its constructor without arguments creates before its contents are
   * read.
   */
  private abstract static class Made extends Kind {
    private final Class<?> type;

    /** Whether values are kept; otherwise they are skipped. */
    final boolean kept;

    private Constructor<?> constructor;

    /** Creates the kind for values of a type; if that is null, one that skips them. */
    Made(Type type) {
      this.type = type == null ? null : raw(type);
      kept = type != null;
    }

    final Object made() {
      try {
        if (constructor == null) {
          constructor = type.getDeclaredConstructor();
          constructor.setAccessible(true);
        }
        return constructor.newInstance();
      } catch (ReflectiveOperationException e) {
        throw new IllegalStateException(type + " needs a constructor without arguments", e);
      }
    }
  }

  /** A long; fields of this kind are read and written unboxed. */
  private static final class OfLong extends Kind {
    @Override
    void write(Object value, DataOutputView out) throws IOException {
      out.writeLong((long) value);
    }

    @Override
    Object read(Object known, DataInputView in) throws IOException {
      return in.readLong();
    }

    @Override
    void write(Field field, Object from, DataOutputView out)
        throws IOException, IllegalAccessException {
      out.writeLong(field.getLong(from));
    }

    @Override
    void read(Field field, Object to, DataInputView in) throws IOException, IllegalAccessException {
      field.setLong(to, in.readLong());
    }

    @Override
    void copy(Field field, Object from, Object to) throws IllegalAccessException {
      field.setLong(to, field.getLong(from));
    }
  }

  private static final class Plain extends Kind {
    private final TypeSerializer<Object> serializer;

    @SuppressWarnings("unchecked") // a field's type and its serializer's agree
    Plain(TypeSerializer<?> serializer) {
      this.serializer = (TypeSerializer<Object>) serializer;
    }

    @Override
    void write(Object value, DataOutputView out) throws IOException {
      serializer.serialize(value, out);
    }

    @Override
    Object read(Object known, DataInputView in) throws IOException {
      return serializer.deserialize(in);
    }

    @Override
    Object copy(Object known, Object value) {
      if (value instanceof long[] numbers) {
        return numbers.clone();
      }
      return value instanceof byte[] octets ? octets.clone() : value;
    }
  }

  private static final class OfEnum extends Kind {
    private final Class<?> type;

    OfEnum(Class<?> type) {
      this.type = type;
    }

    @Override
    void write(Object value, DataOutputView out) throws IOException {
      out.writeUTF(((Enum<?>) value).name());
    }

    @Override
    Object read(Object known, DataInputView in) throws IOException {
      String name = in.readUTF();
      if (type == null) {
        return null;
      }
      for (Object one : type.getEnumConstants()) {
        if (((Enum<?>) one).name().equals(name)) {
          return one;
        }
      }
      throw new IOException("the state holds a " + type.getSimpleName() + " of name " + name);
    }
  }

  private static final class OfMessage extends Kind {
    private final Parser<?> parser;

    OfMessage(Class<?> type) {
      try {
        parser = type == null ? null : (Parser<?>) type.getMethod("parser").invoke(null);
      } catch (ReflectiveOperationException e) {
        throw new IllegalStateException(e); // each generated message has one
      }
    }

    @Override
    void write(Object value, DataOutputView out) throws IOException {
      byte[] octets = value == null ? null : ((MessageLite) value).toByteArray();
      out.writeInt(octets == null ? -1 : octets.length);
      if (octets != null) {
        out.write(octets);
      }
    }

    @Override
    Object read(Object known, DataInputView in) throws IOException {
      int length = in.readInt();
      if (length < 0) {
        return null;
      }
      byte[] octets = new byte[length];
      in.readFully(octets);
      return parser == null ? null : parser.parseFrom(octets);
    }
  }

  private static final class OfObject extends Made {
    private final Field[] fields;
    private final Kind[] kinds;

    OfObject(Layout layout, Class<?> type) {
      super(type);
      fields = new Field[layout.parts().size()];
      kinds = new Kind[fields.length];
      for (int i = 0; i < fields.length; i++) {
        Layout part = layout.parts().get(i);
        fields[i] = type == null ? null : field(type, part.name());
        kinds[i] = of(part, fields[i] == null ? null : fields[i].getGenericType());
      }
    }

    /** Null if the class no longer has the field. */
    private static Field field(Class<?> type, String name) {
      try {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field;
      } catch (NoSuchFieldException e) {
        return null;
      }
    }

    @Override
    void write(Object value, DataOutputView out) throws IOException {
      for (int i = 0; i < kinds.length; i++) {
        try {
          kinds[i].write(fields[i], value, out);
        } catch (IllegalAccessException e) {
          throw new IllegalStateException(e); // it was made accessible
        }
      }
    }

    @Override
    Object read(Object known, DataInputView in) throws IOException {
      Object value = known != null || !kept ? known : made();
      for (int i = 0; i < kinds.length; i++) {
        try {
          if (fields[i] == null) {
            kinds[i].read(null, in);
          } else {
            kinds[i].read(fields[i], value, in);
          }
        } catch (IllegalAccessException e) {
          throw new IllegalStateException(e); // it was made accessible
        }
      }
      return value;
    }

    @Override
    Object copy(Object known, Object from) {
      Object copy = known == null ? made() : known;
      for (int i = 0; i < kinds.length; i++) {
        try {
          kinds[i].copy(fields[i], from, copy);
        } catch (IllegalAccessException e) {
          throw new IllegalStateException(e); // it was made accessible
        }
      }
      return copy;
    }
  }

  private static final class OfRecord extends Kind {
    private final Constructor<?> constructor;
    private final RecordComponent[] components;
    private final List<Kind> kinds = new ArrayList<>();

    /** Index of the kind of each component, -1 if the state does not have it. */
    private final int[] places;

    OfRecord(Layout layout, Class<?> type) {
      components = type == null ? new RecordComponent[0] : type.getRecordComponents();
      places = new int[components.length];
      Arrays.fill(places, -1);
      Class<?>[] types = new Class<?>[components.length];
      List<Layout> parts = layout.parts();
      Type[] generic = new Type[parts.size()];
      for (int i = 0; i < components.length; i++) {
        types[i] = components[i].getType();
        components[i].getAccessor().setAccessible(true);
        for (int part = 0; part < generic.length; part++) {
          if (parts.get(part).name().equals(components[i].getName())) {
            places[i] = part;
            generic[part] = components[i].getGenericType();
          }
        }
      }
      for (int part = 0; part < generic.length; part++) {
        kinds.add(of(parts.get(part), generic[part]));
      }
      try {
        constructor = type == null ? null : type.getDeclaredConstructor(types);
      } catch (NoSuchMethodException e) {
        throw new IllegalStateException(e); // each record has one
      }
      if (constructor != null) {
        constructor.setAccessible(true);
      }
    }

    @Override
    void write(Object value, DataOutputView out) throws IOException {
      for (int i = 0; i < components.length; i++) {
        try {
          kinds.get(places[i]).write(components[i].getAccessor().invoke(value), out);
        } catch (ReflectiveOperationException e) {
          throw new IOException(e);
        }
      }
    }

    @Override
    Object read(Object known, DataInputView in) throws IOException {
      Object[] read = new Object[kinds.size()];
      for (int part = 0; part < read.length; part++) {
        read[part] = kinds.get(part).read(null, in);
      }
      Object[] values = new Object[components.length];
      for (int i = 0; i < values.length; i++) {
        Class<?> type = components[i].getType();
        values[i] = places[i] >= 0 ? read[places[i]] : initial(type);
      }
      try {
        return constructor == null ? null : constructor.newInstance(values);
      } catch (ReflectiveOperationException e) {
        throw new IOException(e);
      }
    }
  }

  /** The value of a record's component that older state does not have. */
  private static Object initial(Class<?> type) {
    if (type == String.class) {
      return "";
    }
    if (type.isArray()) {
      return Array.newInstance(type.getComponentType(), 0);
    }
    // A new array holds the default of a primitive type.
    return type.isPrimitive() ? Array.get(Array.newInstance(type, 1), 0) : null;
  }

  private static final class OfMap extends Made {
    private final Kind key;
    private final Kind value;

    OfMap(Layout layout, Type type) {
      super(type);
      key = of(layout.parts().get(0), argument(type, 0));
      value = of(layout.parts().get(1), argument(type, 1));
    }

    @Override
    void write(Object map, DataOutputView out) throws IOException {
      out.writeInt(((Map<?, ?>) map).size());
      for (Map.Entry<?, ?> entry : ((Map<?, ?>) map).entrySet()) {
        key.write(entry.getKey(), out);
        value.write(entry.getValue(), out);
      }
    }

    @Override
    Object read(Object known, DataInputView in) throws IOException {
      Map<Object, Object> map = kept ? map(known) : null;
      Map<Object, Object> before = kept ? emptied(map) : Map.of();
      for (int left = in.readInt(); left > 0; left--) {
        Object read = key.read(null, in);
        Object now = value.read(kept ? before.get(read) : null, in);
        if (kept) {
          map.put(read, now);
        }
      }
      return map;
    }

    @Override
    Object copy(Object known, Object from) {
      Map<Object, Object> copy = map(known);
      Map<Object, Object> before = emptied(copy);
      for (Map.Entry<?, ?> entry : ((Map<?, ?>) from).entrySet()) {
        copy.put(entry.getKey(), value.copy(before.get(entry.getKey()), entry.getValue()));
      }
      return copy;
    }

    @SuppressWarnings("unchecked") // what is put in is of the field's types
    private Map<Object, Object> map(Object known) {
      return (Map<Object, Object>) (known == null ? made() : known);
    }

    /** Empties a map; objects that its constructor put in are filled again if their key returns. */
    private static Map<Object, Object> emptied(Map<Object, Object> map) {
      if (map.isEmpty()) {
        return Map.of();
      }
      Map<Object, Object> before = new HashMap<>(map);
      map.clear();
      return before;
    }
  }

  private static final class OfSet extends Made {
    private final Kind element;

    OfSet(Layout layout, Type type) {
      super(type);
      element = of(layout.parts().get(0), argument(type, 0));
    }

    @Override
    void write(Object set, DataOutputView out) throws IOException {
      out.writeInt(((Collection<?>) set).size());
      for (Object one : (Collection<?>) set) {
        element.write(one, out);
      }
    }

    @Override
    Object read(Object known, DataInputView in) throws IOException {
      Collection<Object> set = kept ? empty(known) : null;
      for (int left = in.readInt(); left > 0; left--) {
        Object one = element.read(null, in);
        if (kept) {
          set.add(one);
        }
      }
      return set;
    }

    @Override
    Object copy(Object known, Object from) {
      Collection<Object> copy = empty(known);
      for (Object one : (Collection<?>) from) {
        copy.add(element.copy(null, one));
      }
      return copy;
    }

    @SuppressWarnings("unchecked") // what is put in is of the field's types
    private Collection<Object> empty(Object known) {
      Collection<Object> set = (Collection<Object>) (known == null ? made() : known);
      set.clear();
      return set;
    }
  }
}
