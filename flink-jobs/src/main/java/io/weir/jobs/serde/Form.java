package io.weir.jobs.serde;

import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.flink.core.memory.DataInputView;

/**
 * The format of a state that a {@link StateSerializer} writes by hand: a mark, which changes with
 * everything that the serializer writes outside its parts, and the fields of each part. A later
 * version of the jobs reads a state whose parts have other fields, and refuses one with another
 * mark.
 */
public final class Form implements Serializable {
  private static final long serialVersionUID = 1;

  /** A field by name, and the kind of its value. */
  public record Field(String name, String kind) implements Serializable {}

  private final String mark;
  private final TreeMap<String, List<Field>> parts = new TreeMap<>();

  private Form(String mark) {
    this.mark = mark;
  }

  /** A format without parts. The mark has no line breaks. */
  public static Form of(String mark) {
    return new Form(mark);
  }

  /** The same with another part, whose fields are those that {@code value} visits. */
  public Form with(String part, Fields.Of value) {
    return with(part, Fields.list(value));
  }

  /** The same with another part, which the serializer itself reads by its fields' names. */
  public Form with(String part, List<Field> fields) {
    parts.put(part, List.copyOf(fields));
    return this;
  }

  /** The same with the parts of a format within this one. */
  public Form with(Form inner) {
    parts.putAll(inner.parts);
    Form form = new Form(mark + ", " + inner.mark);
    form.parts.putAll(parts);
    return form;
  }

  private List<Field> part(String name) {
    return parts.getOrDefault(name, List.of());
  }

  /** The parts of state that was written in a format, for reading them. */
  public static final class Parts {
    private final Form written;
    private final Form own;

    Parts(Form written, Form own) {
      this.written = written;
      this.own = own;
    }

    /** The fields of a part, in the order in which they were written. */
    public List<Field> fields(String part) {
      return written.part(part);
    }

    /** Reads a part; leaves fields unchanged that it does not have. */
    public Fields of(String part, DataInputView in) throws IOException {
      List<Field> fields = fields(part);
      return fields.equals(own.part(part)) ? Fields.from(in) : Fields.from(in, fields);
    }
  }

  /**
   * Why values of the format {@code old} cannot be read as values of this one; empty if they can.
   */
  String refuses(Form old) {
    if (!old.mark.equals(mark)) {
      return "it has the mark '" + old.mark + "', not '" + mark + "'";
    }
    for (Map.Entry<String, List<Field>> part : old.parts.entrySet()) {
      for (Field field : part.getValue()) {
        for (Field own : part(part.getKey())) {
          if (own.name.equals(field.name) && !own.kind.equals(field.kind)) {
            return "%s of %s was of kind %s, and is of kind %s"
                .formatted(field.name, part.getKey(), field.kind, own.kind);
          }
        }
      }
    }
    return "";
  }

  /** The mark on the first line, and each part on a line. */
  @Override
  public String toString() {
    return parts.entrySet().stream()
        .map(
            part ->
                part.getValue().stream()
                    .map(field -> field.name + " " + field.kind)
                    .collect(Collectors.joining(", ", part.getKey() + ": ", "")))
        .collect(Collectors.joining("\n", mark + "\n", ""));
  }

  /** The format that {@link #toString} gave. */
  static Form parse(String text) {
    String[] lines = text.split("\n");
    Form form = new Form(lines[0]);
    for (int i = 1; i < lines.length; i++) {
      int colon = lines[i].indexOf(": ");
      List<Field> fields = new ArrayList<>();
      for (String field : lines[i].substring(colon + 2).split(", ")) {
        if (!field.isEmpty()) {
          int space = field.indexOf(' ');
          fields.add(new Field(field.substring(0, space), field.substring(space + 1)));
        }
      }
      form.with(lines[i].substring(0, colon), fields);
    }
    return form;
  }
}
