package io.weir.jobs.serde;

import com.google.protobuf.MessageLite;
import java.io.IOException;
import java.io.Serializable;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.IntStream;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * How a value of state is written: what it is and, of an object or a record, its fields in their
 * order, of a map, its key and its value, of a set, its element. Names and kinds tell a later
 * version of the jobs what it reads.
 *
 * @param name of the field that holds it; empty elsewhere
 * @param what {@code object}, {@code record}, {@code map}, {@code set}, or what is written whole
 */
record Layout(String name, String what, List<Layout> parts) implements Serializable {
  static final String OBJECT = "object";
  static final String RECORD = "record";
  static final String MAP = "map";
  static final String SET = "set";
  static final String ENUM = "enum";
  static final String MESSAGE = "message";

  /** The layout of a type; with {@code whole} of its transient fields, too. */
  static Layout of(Type type, boolean whole) {
    return of("", type, whole);
  }

  private static Layout of(String name, Type type, boolean whole) {
    Class<?> plain = Kind.raw(type);
    if (Kind.PLAIN.containsKey(plain.getSimpleName())) {
      return new Layout(name, plain.getSimpleName(), List.of());
    }
    if (plain.isEnum()) {
      return new Layout(name, ENUM, List.of());
    }
    if (MessageLite.class.isAssignableFrom(plain)) {
      return new Layout(name, MESSAGE, List.of());
    }
    if (type instanceof ParameterizedType of) {
      boolean map = Map.class.isAssignableFrom(plain);
      if (map || Collection.class.isAssignableFrom(plain)) {
        List<Layout> parts =
            Arrays.stream(of.getActualTypeArguments()).map(one -> of("", one, whole)).toList();
        return new Layout(name, map ? MAP : SET, parts);
      }
    }
    List<Layout> parts =
        Arrays.stream(plain.getDeclaredFields())
            .filter(field -> !Modifier.isStatic(field.getModifiers()) && !field.isSynthetic())
            .filter(field -> whole || !Modifier.isTransient(field.getModifiers()))
            .map(field -> of(field.getName(), field.getGenericType(), whole))
            .toList();
    return new Layout(name, plain.isRecord() ? RECORD : OBJECT, parts);
  }

  /** Whether values that {@code old} tells of can be read as values of this layout. */
  boolean reads(Layout old) {
    if (!what.equals(old.what)) {
      return false;
    }
    if (what.equals(OBJECT) || what.equals(RECORD)) {
      return old.parts.stream()
          .allMatch(one -> part(one.name).map(own -> own.reads(one)).orElse(true));
    }
    return IntStream.range(0, parts.size()).allMatch(i -> parts.get(i).reads(old.parts.get(i)));
  }

  private Optional<Layout> part(String of) {
    return parts.stream().filter(one -> one.name.equals(of)).findFirst();
  }

  void write(DataOutputView out) throws IOException {
    out.writeUTF(name);
    out.writeUTF(what);
    out.writeInt(parts.size());
    for (Layout part : parts) {
      part.write(out);
    }
  }

  static Layout read(DataInputView in) throws IOException {
    String name = in.readUTF();
    String what = in.readUTF();
    List<Layout> parts = new ArrayList<>();
    for (int left = in.readInt(); left > 0; left--) {
      parts.add(read(in));
    }
    return new Layout(name, what, List.copyOf(parts));
  }
}
