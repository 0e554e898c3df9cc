package io.weir.jobs.serde;

import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;

/**
 * Writes a value of state by hand, in a stated {@link Form}, and reads state of earlier forms of
 * the same mark. A subclass with a constructor without arguments restores checkpoints.
 */
public abstract class FormSerializer<T> extends StateSerializer<T> {
  private static final long serialVersionUID = 1;

  private final Form own;
  private Form.Parts parts;

  protected FormSerializer(Form own) {
    this.own = own;
    parts = new Form.Parts(own, own);
  }

  /** Reads a value that was written with these parts. */
  protected abstract T read(DataInputView in, Form.Parts parts) throws IOException;

  @Override
  public final T read(DataInputView in) throws IOException {
    return read(in, parts);
  }

  @Override
  protected final String form() {
    return own.toString();
  }

  @Override
  final String restores(String form) {
    Form from = Form.parse(form);
    String refusal = own.refuses(from);
    if (refusal.isEmpty()) {
      parts = new Form.Parts(from, own);
    }
    return refusal;
  }
}
