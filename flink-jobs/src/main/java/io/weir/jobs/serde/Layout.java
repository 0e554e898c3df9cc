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
 * The format of a value of state: its kind and the parts of that kind, which are the fields of an
 * object or record (in order), the key and value of a map, the element of a set, the class of a
 * message, or the constants of an enum. By names and kinds, a later version of the jobs recognises
 * the values that it reads.
 *
 * @param name of the field that holds it; empty elsewhere
 * @param what {@code object}, {@code record}, {@code map}, {@code set}, or the name of a type that
 *     is written whole
 */
record Layout(String name, String what, List<Layout> parts) implements Serializable {
  static final String OBJECT = "object";
  static final String RECORD = "record";
  static final String MAP = "map";
  static final String SET = "set";
  static final String ENUM = "enum";
  static final String MESSAGE = "message";
  private static final String CLASS = "class";
  private static final String CONSTANT = "constant";

  /**
   * The layout of a type; with {@code whole}, including its transient fields.
   *
   * @throws IllegalArgumentException for a type that cannot be written whole: arrays of objects,
   *     classes of the platform that are neither plain nor containers, interfaces, and classes that
   *     inherit fields or a container
   */
  static Layout of(Type type, boolean whole) {
    return of("", type, whole);
  }

  private static Layout of(String name, Type type, boolean whole) {
    Class<?> plain = Kind.raw(type);
    if (Kind.PLAIN.containsKey(plain.getSimpleName())) {
      return new Layout(name, plain.getSimpleName(), List.of());
    }
    if (plain.isEnum()) {
      List<Layout> constants =
          Arrays.stream(plain.getEnumConstants())
              .map(one -> new Layout(((Enum<?>) one).name(), CONSTANT, List.of()))
              .toList();
      return new Layout(name, ENUM, constants);
    }
    if (MessageLite.class.isAssignableFrom(plain)) {
      return new Layout(name, MESSAGE, List.of(new Layout(plain.getName(), CLASS, List.of())));
    }
    boolean map = Map.class.isAssignableFrom(plain);
    if (map || Collection.class.isAssignableFrom(plain)) {
      if (!(type instanceof ParameterizedType of) || !plain.getName().startsWith("java.util.")) {
        throw refused(
            name, type, "is a container of its own; take one of java.util with its types");
      }
      List<Layout> parts =
          Arrays.stream(of.getActualTypeArguments()).map(one -> of("", one, whole)).toList();
      return new Layout(name, map ? MAP : SET, parts);
    }
    if (plain.isPrimitive() || plain.isArray() || plain.isInterface() || ofPlatform(plain)) {
      throw refused(name, type, "cannot be written by its fields");
    }
    if (!plain.isRecord() && plain.getSuperclass() != Object.class) {
      throw refused(name, type, "inherits from " + plain.getSuperclass().getSimpleName());
    }
    List<Layout> parts =
        Arrays.stream(plain.getDeclaredFields())
            .filter(field -> !Modifier.isStatic(field.getModifiers()) && !field.isSynthetic())
            .filter(field -> whole || !Modifier.isTransient(field.getModifiers()))
            .map(field -> of(field.getName(), field.getGenericType(), whole))
            .toList();
    return new Layout(name, plain.isRecord() ? RECORD : OBJECT, parts);
  }

  private static boolean ofPlatform(Class<?> type) {
    return type.getName().startsWith("java.");
  }

  private static IllegalArgumentException refused(String name, Type type, String why) {
    String where = name.isEmpty() ? "" : " in field " + name;
    return new IllegalArgumentException("state" + where + ": " + type.getTypeName() + " " + why);
  }

  /** The same layout with this name, which marks the meaning of a whole value. */
  Layout marked(String mark) {
    return new Layout(mark, what, parts);
  }

  /** Why values of the layout {@code old} cannot be read as values of this layout. */
  Optional<String> refuses(Layout old) {
    String field = name.isEmpty() ? "it" : name;
    if (!name.equals(old.name)) {
      return Optional.of("it has the mark '%s', not '%s'".formatted(old.name, name));
    }
    if (!what.equals(old.what)) {
      return Optional.of("%s was of kind %s, and is of kind %s".formatted(field, old.what, what));
    }
    if (what.equals(OBJECT) || what.equals(RECORD)) {
      return old.parts.stream()
          .flatMap(one -> part(one.name).flatMap(own -> own.refuses(one)).stream())
          .findFirst();
    }
    if (what.equals(ENUM) || what.equals(MESSAGE)) {
      return old.parts.stream()
          .filter(one -> !parts.contains(one))
          .map(one -> "%s may be %s, which is no more".formatted(field, one.name))
          .findFirst();
    }
    return IntStream.range(0, parts.size())
        .mapToObj(i -> parts.get(i).refuses(old.parts.get(i)))
        .flatMap(Optional::stream)
        .findFirst();
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
