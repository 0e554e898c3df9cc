import com.google.protobuf.DescriptorProtos;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.DescriptorValidationException;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor.JavaType;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.ExtensionRegistry;
import com.google.protobuf.Message;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.function.Function;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Writes the classes that follow from {@code schemas/flow.proto} and its options: the columns of
 * {@code flows}, what writes a record into them, and what refuses a record that they cannot hold.
 * Maven runs it before it compiles, with the schemas' descriptor set and the folder to write to.
 *
 * <p>Each of some fifty fields of each record passes through this code, so it is spelt out: a loop
 * over fields would make a call for each that the JVM cannot inline, and method handles put
 * together at the start run slowly until they are compiled, for the first million records or so.
 */
public final class FlowCode {
  /** Enums of columns are numbered from 0 without gaps. */
  private static final Pattern ENUM_VALUE = Pattern.compile("' = \\d+");

  private final FieldDescriptor columnOption;
  private final FieldDescriptor longestOption;
  private final Descriptor message;
  private final Descriptor flow;
  private final Descriptor known;

  /**
   * A field that is a column.
   *
   * @param path its name, after that of the field of Flow that holds its message and a dot
   * @param value the expression that reads it; the number of an enum's value
   * @param kind what the expression gives
   * @param column name of its column
   * @param type type of its column in ClickHouse
   * @param longest octets of its longest value, 0 for any
   */
  private record Field(
      String path, String value, JavaType kind, String column, String type, int longest) {
    String constant() {
      return column.toUpperCase(Locale.ROOT);
    }

    String declaration() {
      return "  private static final int %s = Table.FLOWS.index(\"%s\");\n"
          .formatted(constant(), column);
    }

    /** The statement that writes it into its column. */
    String write() {
      return switch (kind) {
        case BYTE_STRING ->
            type.equals("IPv6")
                ? "FlowBlocks.address(row, %s, %s);".formatted(constant(), value)
                : "row.setString(%s, %s.toByteArray());".formatted(constant(), value);
        case STRING -> "row.setString(%s, %s);".formatted(constant(), value);
        case BOOLEAN -> "row.set(%s, %s ? 1 : 0);".formatted(constant(), value);
        case LONG ->
            type.equals("UInt32")
                ? "row.set(%s, BlockBuilder.saturate32(%s));".formatted(constant(), value)
                : "row.set(%s, %s);".formatted(constant(), value);
        default -> "row.set(%s, %s);".formatted(constant(), value);
      };
    }

    /**
     * The statement that refuses a value which its column cannot hold; empty where it holds all.
     */
    String check() {
      long largest =
          switch (type) {
            case "UInt8" -> 0xff;
            case "UInt16" -> 0xffff;
            default -> ENUM_VALUE.matcher(type).results().count() - 1;
          };
      boolean number = kind == JavaType.INT || kind == JavaType.ENUM;
      if (number && largest >= 0) {
        return "Checks.number(\"%s\", %d, %s);".formatted(path, largest, value);
      }
      if (type.equals("IPv6")) {
        return "Checks.address(\"%s\", %s);".formatted(path, value);
      }
      return longest == 0 ? "" : "Checks.octets(\"%s\", %d, %s);".formatted(path, longest, value);
    }
  }

  private FlowCode(byte[] descriptors) throws IOException, DescriptorValidationException {
    FileDescriptor base = DescriptorProtos.getDescriptor();
    FileDescriptor plain = file(FileDescriptorSet.parseFrom(descriptors), "columns.proto", base);
    columnOption = plain.findExtensionByName("column");
    longestOption = plain.findExtensionByName("longest");
    ExtensionRegistry options = ExtensionRegistry.newInstance();
    options.add(columnOption, DynamicMessage.getDefaultInstance(columnOption.getMessageType()));
    options.add(longestOption);
    FileDescriptorSet all = FileDescriptorSet.parseFrom(descriptors, options);
    FileDescriptor columns = file(all, "columns.proto", base);
    FileDescriptor flows = file(all, "flow.proto", columns);
    message = flows.findMessageTypeByName("FlowMessage");
    flow = flows.findMessageTypeByName("Flow");
    known = columns.findMessageTypeByName("Known");
  }

  public static void main(String[] args) throws Exception {
    FlowCode code = new FlowCode(Files.readAllBytes(Path.of(args[0])));
    Path folder = Path.of(args[1], "io/weir/jobs");
    write(folder.resolve("table/FlowColumns.java"), code.columns());
    write(folder.resolve("ingest/FlowWriter.java"), code.writer());
    write(folder.resolve("source/FlowChecks.java"), code.checks());
  }

  /** Leaves a file alone that says the same: after a newer one Maven would compile everything. */
  private static void write(Path path, String text) throws IOException {
    if (!Files.exists(path) || !Files.readString(path).equals(text)) {
      Files.createDirectories(path.getParent());
      Files.writeString(path, text);
    }
  }

  private String columns() {
    List<Field> all = new ArrayList<>(fields(message, "", ""));
    for (FieldDescriptor field : flow.getFields()) {
      all.addAll(isColumn(field) ? List.of(field(field, "", "")) : within(field));
    }
    all.addAll(fields(known, "", ""));
    String lines =
        all.stream()
            // The table is partitioned by its first column, ts.
            .sorted(Comparator.comparing(field -> !field.column.equals("ts")))
            .map(
                field ->
                    "new Table.Column(\"%s\", ColumnType.of(\"%s\"))"
                        .formatted(field.column, field.type))
            .collect(Collectors.joining(",\n          "));
    return """
        // Written by FlowCode from schemas/flow.proto.
        package io.weir.jobs.table;

        import java.util.List;

        /** The columns of the table flows. */
        final class FlowColumns {
          static final List<Table.Column> ALL =
              List.of(
                  %s);

          private FlowColumns() {}
        }
        """
        .formatted(lines);
  }

  private String writer() {
    StringBuilder constants = new StringBuilder();
    String statements =
        each(
            field -> {
              constants.append(field.declaration());
              return field.write();
            });
    return """
        // Written by FlowCode from schemas/flow.proto.
        package io.weir.jobs.ingest;

        import io.weir.jobs.sink.BlockBuilder;
        import io.weir.jobs.table.Table;
        import io.weir.proto.Flow;

        /** Writes the fields of a record into the columns of flows. */
        final class FlowWriter {
        %s
          private FlowWriter() {}

          static void write(Flow flow, BlockBuilder row) {
        %s  }
        }
        """
        .formatted(constants, statements);
  }

  private String checks() {
    return """
        // Written by FlowCode from schemas/flow.proto.
        package io.weir.jobs.source;

        import io.weir.proto.Flow;

        /** Refuses a record with a value that its column cannot hold. */
        final class FlowChecks {
          private FlowChecks() {}

          static void check(Flow flow) throws Checks.Refused {
        %s  }
        }
        """
        .formatted(each(Field::check));
  }

  /** A statement for each field of Flow; for those of a message within it where that is there. */
  private String each(Function<Field, String> statement) {
    StringBuilder out = new StringBuilder();
    for (FieldDescriptor field : flow.getFields()) {
      if (isColumn(field)) {
        out.append(lines("    ", List.of(field(field, "", "flow")), statement));
      } else if (field.getJavaType() == JavaType.MESSAGE) {
        String name = camel(field);
        out.append("    if (flow.has%s()) {\n".formatted(name));
        out.append(lines("      ", within(field), statement));
        out.append("    }\n");
      }
    }
    return out.toString();
  }

  private static String lines(
      String indent, List<Field> fields, Function<Field, String> statement) {
    return fields.stream()
        .map(statement)
        .filter(line -> !line.isEmpty())
        .map(line -> indent + line + "\n")
        .collect(Collectors.joining());
  }

  /** The columns in a message that is a field of Flow; none where it is not a message. */
  private List<Field> within(FieldDescriptor field) {
    if (field.getJavaType() != JavaType.MESSAGE) {
      return List.of();
    }
    String message = "flow.get%s()".formatted(camel(field));
    return fields(field.getMessageType(), field.getName() + ".", message);
  }

  private List<Field> fields(Descriptor of, String prefix, String from) {
    return of.getFields().stream()
        .filter(this::isColumn)
        .map(field -> field(field, prefix, from))
        .toList();
  }

  private boolean isColumn(FieldDescriptor field) {
    return field.getOptions().hasField(columnOption);
  }

  private Field field(FieldDescriptor field, String prefix, String from) {
    Message column = (Message) field.getOptions().getField(columnOption);
    String name = text(column, "name");
    String suffix = field.getJavaType() == JavaType.ENUM ? "Value" : "";
    return new Field(
        prefix + field.getName(),
        "%s.get%s%s()".formatted(from, camel(field), suffix),
        field.getJavaType(),
        name.isEmpty() ? field.getName() : name,
        text(column, "type"),
        (Integer) field.getOptions().getField(longestOption));
  }

  private static String text(Message column, String option) {
    return (String) column.getField(column.getDescriptorForType().findFieldByName(option));
  }

  /** A field's name as protoc writes it in Java. */
  private static String camel(FieldDescriptor field) {
    return Stream.of(field.getName().split("_"))
        .map(word -> Character.toUpperCase(word.charAt(0)) + word.substring(1))
        .collect(Collectors.joining());
  }

  private static FileDescriptor file(FileDescriptorSet all, String name, FileDescriptor imported)
      throws DescriptorValidationException {
    FileDescriptorProto file =
        all.getFileList().stream()
            .filter(one -> one.getName().equals(name))
            .findFirst()
            .orElseThrow();
    return FileDescriptor.buildFrom(file, new FileDescriptor[] {imported});
  }
}
