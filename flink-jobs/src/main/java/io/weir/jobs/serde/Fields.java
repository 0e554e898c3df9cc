package io.weir.jobs.serde;

import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * Visits the fields of a value in order, to write or to read them: {@code a = fields.of(a)}. One
 * list of fields serves both, so that reading and writing always agree.
 */
public abstract class Fields {
  private Fields() {}

  /** Writes each field and leaves it unchanged. */
  public static Fields to(DataOutputView out) {
    return new Fields() {
      @Override
      public long of(long field) throws IOException {
        out.writeLong(field);
        return field;
      }

      @Override
      public int of(int field) throws IOException {
        out.writeInt(field);
        return field;
      }

      @Override
      public boolean of(boolean field) throws IOException {
        out.writeBoolean(field);
        return field;
      }
    };
  }

  /** Reads each field. */
  public static Fields from(DataInputView in) {
    return new Fields() {
      @Override
      public long of(long field) throws IOException {
        return in.readLong();
      }

      @Override
      public int of(int field) throws IOException {
        return in.readInt();
      }

      @Override
      public boolean of(boolean field) throws IOException {
        return in.readBoolean();
      }
    };
  }

  /** Returns the field's new value. */
  public abstract long of(long field) throws IOException;

  /** Returns the field's new value. */
  public abstract int of(int field) throws IOException;

  /** Returns the field's new value. */
  public abstract boolean of(boolean field) throws IOException;
}
