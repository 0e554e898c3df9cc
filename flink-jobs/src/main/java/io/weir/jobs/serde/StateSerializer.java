package io.weir.jobs.serde;

import java.io.IOException;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;

/** A serializer of a value that its function changes: Flink copies it before writing it. */
public abstract class StateSerializer<T> extends WireSerializer<T> {
  private static final long serialVersionUID = 1;

  @Override
  public final boolean isImmutableType() {
    return false;
  }

  /** Copies by writing and reading, unless a subclass overrides this with a faster way. */
  @Override
  public T copy(T from) {
    try {
      DataOutputSerializer out = new DataOutputSerializer(4096);
      write(from, out);
      return read(new DataInputDeserializer(out.getSharedBuffer(), 0, out.length()));
    } catch (IOException e) {
      throw new IllegalStateException(e); // nothing but memory is written to
    }
  }
}
