package io.weir.jobs.serde;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * Visits the fields of a value in order, to write, to read or to list them: {@code a =
 * fields.of("a", a)}. One method of the value serves all three, so that they always agree.
 */
public abstract class Fields {
  /** A value's method that visits its fields. */
  @FunctionalInterface
  public interface Of {
    void visit(Fields fields) throws IOException;
  }

  private Fields() {}

  /** Writes each field and leaves it unchanged. */
  public static Fields to(DataOutputView out) {
    return new Fields() {
      @Override
      public long of(String name, long field) throws IOException {
        out.writeLong(field);
        return field;
      }

      @Override
      public int of(String name, int field) throws IOException {
        out.writeInt(field);
        return field;
      }

      @Override
      public boolean of(String name, boolean field) throws IOException {
        out.writeBoolean(field);
        return field;
      }

      @Override
      public double of(String name, double field) throws IOException {
        out.writeDouble(field);
        return field;
      }
    };
  }

  /** Reads each field that was written in the order of the visit. */
  static Fields from(DataInputView in) {
    return new Fields() {
      @Override
      public long of(String name, long field) throws IOException {
        return in.readLong();
      }

      @Override
      public int of(String name, int field) throws IOException {
        return in.readInt();
      }

      @Override
      public boolean of(String name, boolean field) throws IOException {
        return in.readBoolean();
      }

      @Override
      public double of(String name, double field) throws IOException {
        return in.readDouble();
      }
    };
  }

  /** Reads fields that were written in this order; leaves a field that is not there unchanged. */
  static Fields from(DataInputView in, List<Form.Field> written) throws IOException {
    Map<String, Object> values = new HashMap<>();
    for (Form.Field field : written) {
      values.put(
          field.name(),
          switch (field.kind()) {
            case "long" -> in.readLong();
            case "int" -> in.readInt();
            case "boolean" -> in.readBoolean();
            case "double" -> in.readDouble();
            default -> throw new IOException("the state has a field of kind " + field.kind());
          });
    }
    return new Boxed() {
      @Override
      Object of(String name, String kind, Object field) {
        return values.getOrDefault(name, field);
      }
    };
  }

  /** The fields that a value visits. */
  static List<Form.Field> list(Of value) {
    List<Form.Field> fields = new ArrayList<>();
    Fields names =
        new Boxed() {
          @Override
          Object of(String name, String kind, Object field) {
            fields.add(new Form.Field(name, kind));
            return field;
          }
        };
    try {
      value.visit(names);
    } catch (IOException e) {
      throw new IllegalStateException(e); // nothing is read or written
    }
    return fields;
  }

  /** Returns the field's new value. */
  public abstract long of(String name, long field) throws IOException;

  /** Returns the field's new value. */
  public abstract int of(String name, int field) throws IOException;

  /** Returns the field's new value. */
  public abstract boolean of(String name, boolean field) throws IOException;

  /** Returns the field's new value. */
  public abstract double of(String name, double field) throws IOException;

  /** Visits fields of all kinds alike. */
  private abstract static class Boxed extends Fields {
    /** Returns the field's new value. */
    abstract Object of(String name, String kind, Object field);

    @Override
    public long of(String name, long field) {
      return (long) of(name, "long", field);
    }

    @Override
    public int of(String name, int field) {
      return (int) of(name, "int", field);
    }

    @Override
    public boolean of(String name, boolean field) {
      return (boolean) of(name, "boolean", field);
    }

    @Override
    public double of(String name, double field) {
      return (double) of(name, "double", field);
    }
  }
}
