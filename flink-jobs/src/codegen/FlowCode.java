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
 * Generates the classes from {@code schemas/flow.proto} and its options: the columns of the tables
 * that batches fill, the code that writes a record into them, and the code that refuses a record
 * that they cannot hold. Maven runs it before it compiles, with the schemas' descriptor set and the
 * folder to write to.
 *
 * <p>Each of some fifty fields of each record passes through this code, so the generated code is
 * unrolled: a loop over fields would make a call for each that the JVM cannot inline, and method
 * handles composed at the start run slowly until they are compiled, for the first million records
 * or so.
 */
public final class FlowCode {
  /** Enums of columns are numbered from 0 without gaps. */
  private static final Pattern ENUM_VALUE = Pattern.compile("' = \\d+");

  private final FieldDescriptor columnOption;
  private final FieldDescriptor longestOption;
  private final FieldDescriptor allowedOption;
  private final FileDescriptor flows;
  private final Descriptor message;
  private final Descriptor known;
  private final Descriptor kept;

  /** The content of a batch, and the constant of Table for its table. */
  private enum Filled {
    FLOWS("Flow"),
    NAT_EVENTS("NatEvent"),
    INTERFACE_COUNTERS("ExporterCounters"),
    EXPORTER_NAMES("ExporterName");

    final String type;

    Filled(String type) {
      this.type = type;
    }
  }

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

    String declaration(Filled table) {
      return "  private static final int %s = Table.%s.index(\"%s\");\n"
          .formatted(constant(), table, column);
    }

    /** The statement that writes it into its column. */
    String write() {
      return switch (kind) {
        case BYTE_STRING ->
            type.equals("IPv6")
                ? "Rows.address(row, %s, %s);".formatted(constant(), value)
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
     * The statement that refuses a value that its column cannot hold; empty if the column holds
     * every value.
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
      String octets = kind == JavaType.STRING ? value.replace("()", "Bytes()") : value;
      return longest == 0 ? "" : "Checks.octets(\"%s\", %d, %s);".formatted(path, longest, octets);
    }
  }

  private FlowCode(byte[] descriptors) throws IOException, DescriptorValidationException {
    FileDescriptor base = DescriptorProtos.getDescriptor();
    FileDescriptor plain = file(FileDescriptorSet.parseFrom(descriptors), "columns.proto", base);
    columnOption = plain.findExtensionByName("column");
    longestOption = plain.findExtensionByName("longest");
    allowedOption = plain.findExtensionByName("allowed");
    ExtensionRegistry options = ExtensionRegistry.newInstance();
    options.add(columnOption, DynamicMessage.getDefaultInstance(columnOption.getMessageType()));
    options.add(longestOption);
    options.add(allowedOption);
    FileDescriptorSet all = FileDescriptorSet.parseFrom(descriptors, options);
    FileDescriptor columns = file(all, "columns.proto", base);
    flows = file(all, "flow.proto", columns);
    message = flows.findMessageTypeByName("FlowMessage");
    known = columns.findMessageTypeByName("Known");
    kept = columns.findMessageTypeByName("Kept");
  }

  public static void main(String[] args) throws Exception {
    FlowCode code = new FlowCode(Files.readAllBytes(Path.of(args[0])));
    Path folder = Path.of(args[1], "io/weir/jobs");
    write(folder.resolve("table/BatchColumns.java"), code.columns());
    for (Filled table : Filled.values()) {
      write(folder.resolve("ingest/%sWriter.java".formatted(table.type)), code.writer(table));
    }
    write(folder.resolve("ingest/KnownColumns.java"), code.knownColumns());
    write(folder.resolve("source/RecordChecks.java"), code.checks());
  }

  /** Leaves an unchanged file alone: a newer one would make Maven compile everything. */
  private static void write(Path path, String text) throws IOException {
    if (!Files.exists(path) || !Files.readString(path).equals(text)) {
      Files.createDirectories(path.getParent());
      Files.writeString(path, text);
    }
  }

  private String columns() {
    StringBuilder lists = new StringBuilder();
    for (Filled table : Filled.values()) {
      List<Field> all = new ArrayList<>(fields(message, "", ""));
      for (FieldDescriptor field : type(table).getFields()) {
        all.addAll(isColumn(field) ? List.of(field(field, "", "")) : within(field));
      }
      if (table == Filled.FLOWS) {
        all.addAll(fields(known, "", ""));
      } else if (table == Filled.NAT_EVENTS) {
        all.addAll(fields(kept, "", ""));
      }
      String lines =
          all.stream()
              // A table is partitioned by its first column, ts.
              .sorted(Comparator.comparing(field -> !field.column.equals("ts")))
              .map(
                  field ->
                      "new Table.Column(\"%s\", ColumnType.of(\"%s\"))"
                          .formatted(field.column, field.type))
              .collect(Collectors.joining(",\n          "));
      lists.append(
          """
            static final List<Table.Column> %s =
                List.of(
                    %s);

          """
              .formatted(table, lines));
    }
    return """
        // Written by FlowCode from schemas/flow.proto.
        package io.weir.jobs.table;

        import java.util.List;

        /** The columns of the tables that batches fill. */
        final class BatchColumns {
        %s
          private BatchColumns() {}
        }
        """
        .formatted(lists);
  }

  private String writer(Filled table) {
    StringBuilder constants = new StringBuilder();
    String statements =
        each(
            table,
            field -> {
              constants.append(field.declaration(table));
              return field.write();
            });
    return """
        // Written by FlowCode from schemas/flow.proto.
        package io.weir.jobs.ingest;

        import io.weir.jobs.sink.BlockBuilder;
        import io.weir.jobs.table.Table;
        import io.weir.proto.%2$s;

        /** Writes the fields of a record into its columns. */
        final class %2$sWriter {
        %1$s
          private %2$sWriter() {}

          static void write(%2$s record, BlockBuilder row) {
        %3$s  }
        }
        """
        .formatted(constants, table.type, statements);
  }

  private String knownColumns() {
    String constants =
        fields(known, "", "").stream()
            .map(field -> field.declaration(Filled.FLOWS).replace("  private ", "  "))
            .collect(Collectors.joining());
    return """
        // Written by FlowCode from schemas/columns.proto.
        package io.weir.jobs.ingest;

        import io.weir.jobs.table.Table;

        /** Positions of the columns that the jobs add to a record of flows. */
        final class KnownColumns {
        %s
          private KnownColumns() {}
        }
        """
        .formatted(constants);
  }

  private String checks() {
    StringBuilder imports = new StringBuilder();
    StringBuilder methods = new StringBuilder();
    for (Filled table : Filled.values()) {
      imports.append("import io.weir.proto.%s;\n".formatted(table.type));
      methods.append(
          "\n  static void check(%s record) throws Checks.Refused {\n%s  }\n"
              .formatted(table.type, each(table, Field::check)));
    }
    return """
        // Written by FlowCode from schemas/flow.proto.
        package io.weir.jobs.source;

        %s
        import java.util.List;

        /** Refuses a record with a value that its column cannot hold. */
        final class RecordChecks {
          /** The lengths of intervals that there are. */
          static final List<Integer> INTERVALS_MS = List.of(%s);

          private RecordChecks() {}
        %s}
        """
        .formatted(imports, allowed(message.findFieldByName("interval_ms")), methods);
  }

  /** The only values of a field, with commas. */
  private String allowed(FieldDescriptor field) {
    return ((List<?>) field.getOptions().getField(allowedOption))
        .stream().map(Object::toString).collect(Collectors.joining(", "));
  }

  private Descriptor type(Filled table) {
    return flows.findMessageTypeByName(table.type);
  }

  /**
   * A statement for each field; for the fields of a message within the record, only if the record
   * has that message.
   */
  private String each(Filled table, Function<Field, String> statement) {
    StringBuilder out = new StringBuilder();
    for (FieldDescriptor field : type(table).getFields()) {
      if (isColumn(field)) {
        out.append(lines("    ", List.of(field(field, "", "record")), statement));
      } else if (field.getJavaType() == JavaType.MESSAGE) {
        String name = camel(field);
        out.append("    if (record.has%s()) {\n".formatted(name));
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

  /** The columns in a message that is a field of a record; none if it is not a message. */
  private List<Field> within(FieldDescriptor field) {
    if (field.getJavaType() != JavaType.MESSAGE) {
      return List.of();
    }
    String message = "record.get%s()".formatted(camel(field));
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
