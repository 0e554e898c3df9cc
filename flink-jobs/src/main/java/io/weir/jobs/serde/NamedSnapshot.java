package io.weir.jobs.serde;

import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;
import org.apache.flink.runtime.execution.SuppressRestartsException;

/**
 * Records in a checkpoint the class by which a serializer identifies the state, and the format of
 * the state. A subclass is public and has a public constructor without arguments, which a restored
 * checkpoint calls.
 */
abstract class NamedSnapshot<T> implements TypeSerializerSnapshot<T> {
  private final int version;
  private Class<?> named;

  /** Name of the class, which may have gone. */
  private String name = "";

  /** For restoring; the snapshot itself is written in this version. */
  NamedSnapshot(int version) {
    this.version = version;
  }

  NamedSnapshot(int version, Class<?> named) {
    this(version);
    this.named = named;
  }

  /** The class. */
  final Class<?> named() {
    return named;
  }

  abstract void writeFormat(DataOutputView out) throws IOException;

  /**
   * Reads what {@link #writeFormat} wrote; the class is known. Throws {@link #refused} if this
   * version of the jobs cannot read state in that format.
   */
  abstract void readFormat(DataInputView in) throws IOException, ReflectiveOperationException;

  @Override
  public final int getCurrentVersion() {
    return version;
  }

  @Override
  public final void writeSnapshot(DataOutputView out) throws IOException {
    out.writeUTF(named.getName());
    writeFormat(out);
  }

  @Override
  public final void readSnapshot(int written, DataInputView in, ClassLoader loader)
      throws IOException {
    name = in.readUTF();
    if (written != version) {
      throw refused("formats are described in version " + written + ", not " + version);
    }
    try {
      named = Class.forName(name, true, loader);
      readFormat(in);
    } catch (ReflectiveOperationException e) {
      throw refused("this class is not in the jar");
    }
  }

  /** Ends the job for good: a restart would find the same state. */
  final SuppressRestartsException refused(String why) {
    return new SuppressRestartsException(
        new IOException(
            "this version of the jobs cannot read the state of %s, and leaves it as it is: %s. Start the version that wrote it"
                .formatted(name.replace("$Serializer", ""), why)));
  }
}
