package io.weir.jobs.table;

import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor.JavaType;
import io.weir.proto.Column;
import io.weir.proto.Columns;
import io.weir.proto.Flow;
import io.weir.proto.FlowMessage;
import io.weir.proto.Known;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * What {@code schemas/flow.proto} says of the fields of a record: their columns in {@code flows},
 * by the options of {@code columns.proto}.
 *
 * <p>What is done for each field of each record is put together from method handles, once. A
 * constant handle is compiled like code written out by hand; a loop over fields would be slower by
 * a call that cannot be inlined for each of some fifty fields.
 */
public final class FlowFields {
  /**
   * A field that is a column.
   *
   * @param path its name, after that of the field of Flow that holds its message and a dot
   * @param column its column, by the schema's options
   * @param longest octets of its longest value, 0 for any
   * @param getter reads it from its message: int, long, boolean, String or ByteString; the number
   *     of an enum's value
   */
  public record Field(String path, Column column, int longest, MethodHandle getter) {
    /** Name of its column. */
    public String name() {
      return column.getName().isEmpty()
          ? path.substring(path.lastIndexOf('.') + 1)
          : column.getName();
    }

    /** The largest number that its column holds; -1 where it holds whatever the field does. */
    public int largest() {
      return switch (type()) {
        case UINT8 -> 0xff;
        case UINT16 -> 0xffff;
        case INT8 -> ENUM_VALUE.matcher(column.getType()).results().toList().size() - 1;
        default -> -1;
      };
    }

    /** How its column is written. */
    public ColumnType type() {
      return ColumnType.of(column.getType());
    }
  }

  /** Enums of columns are numbered from 0 without gaps. */
  private static final Pattern ENUM_VALUE = Pattern.compile("' = \\d+");

  private FlowFields() {}

  /** Every column of {@code flows}, {@code ts} first: the table is partitioned by it. */
  static List<Field> columns() {
    List<Field> all = new ArrayList<>();
    for (Class<?> type : List.of(FlowMessage.class, Flow.class, Known.class)) {
      for (FieldDescriptor field : descriptor(type).getFields()) {
        if (stored(field)) {
          all.add(field(type, field, ""));
        } else if (type == Flow.class && field.getJavaType() == JavaType.MESSAGE) {
          Class<?> inner = getter(type, field).type().returnType();
          inner(inner, field).forEach(all::add);
        }
      }
    }
    return Stream.concat(
            all.stream().filter(field -> field.type() == ColumnType.DATE_TIME),
            all.stream().filter(field -> field.type() != ColumnType.DATE_TIME))
        .toList();
  }

  /**
   * One handle {@code (context, Flow)void} that does for every field of Flow what {@code made}
   * gives for it: a handle {@code (context, message of the field)void}. Fields of a message within
   * Flow are left out where it is absent.
   */
  public static MethodHandle forEach(Class<?> context, Function<Field, MethodHandle> made) {
    List<MethodHandle> all = new ArrayList<>();
    for (FieldDescriptor field : Flow.getDescriptor().getFields()) {
      if (stored(field)) {
        all.add(made.apply(field(Flow.class, field, "")));
      } else if (field.getJavaType() == JavaType.MESSAGE) {
        MethodHandle getter = getter(Flow.class, field);
        Class<?> inner = getter.type().returnType();
        List<MethodHandle> within = inner(inner, field).map(made).toList();
        MethodHandle whole =
            MethodHandles.filterArguments(sequence(context, inner, within), 1, getter);
        MethodHandle has = method(Flow.class, "has" + camel(field.getName()));
        all.add(
            MethodHandles.guardWithTest(
                MethodHandles.dropArguments(has, 0, context),
                whole,
                MethodHandles.empty(whole.type())));
      }
    }
    return sequence(context, Flow.class, all);
  }

  private static Stream<Field> inner(Class<?> type, FieldDescriptor of) {
    return descriptor(type).getFields().stream()
        .filter(FlowFields::stored)
        .map(field -> field(type, field, of.getName() + "."));
  }

  /** One after the other, as a tree: a chain of fifty would be too deep to be inlined. */
  private static MethodHandle sequence(Class<?> context, Class<?> type, List<MethodHandle> all) {
    if (all.isEmpty()) {
      return MethodHandles.empty(MethodType.methodType(void.class, context, type));
    }
    if (all.size() == 1) {
      return all.get(0);
    }
    int half = all.size() / 2;
    return MethodHandles.foldArguments(
        sequence(context, type, all.subList(half, all.size())),
        sequence(context, type, all.subList(0, half)));
  }

  private static boolean stored(FieldDescriptor field) {
    return field.getOptions().hasExtension(Columns.column);
  }

  private static Field field(Class<?> type, FieldDescriptor field, String prefix) {
    return new Field(
        prefix + field.getName(),
        field.getOptions().getExtension(Columns.column),
        field.getOptions().getExtension(Columns.longest),
        getter(type, field));
  }

  private static MethodHandle getter(Class<?> type, FieldDescriptor field) {
    String suffix = field.getJavaType() == JavaType.ENUM ? "Value" : "";
    return method(type, "get" + camel(field.getName()) + suffix);
  }

  private static MethodHandle method(Class<?> type, String name) {
    try {
      return MethodHandles.publicLookup().unreflect(type.getMethod(name));
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  private static Descriptor descriptor(Class<?> type) {
    try {
      return (Descriptor) type.getMethod("getDescriptor").invoke(null);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  private static String camel(String name) {
    StringBuilder out = new StringBuilder();
    for (String word : name.split("_", -1)) {
      out.append(Character.toUpperCase(word.charAt(0))).append(word, 1, word.length());
    }
    return out.toString();
  }
}
