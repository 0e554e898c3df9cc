package io.weir.jobs.message;

import io.weir.jobs.serde.WireSerializer;
import io.weir.jobs.serde.WireType;
import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * A message that is set aside, and why: {@code cause} is one word in snake case and what was found.
 */
public record DeadLetter(RawMessage message, String cause) {
  public static final WireType<DeadLetter> TYPE =
      new WireType<>(DeadLetter.class, new Serializer());

  /** Writes a {@link DeadLetter}. */
  public static final class Serializer extends WireSerializer<DeadLetter> {
    private static final long serialVersionUID = 1;
    private static final RawMessage.Serializer MESSAGE = new RawMessage.Serializer();

    @Override
    public void write(DeadLetter letter, DataOutputView out) throws IOException {
      out.writeUTF(letter.cause);
      MESSAGE.write(letter.message, out);
    }

    @Override
    public DeadLetter read(DataInputView in) throws IOException {
      String cause = in.readUTF();
      return new DeadLetter(MESSAGE.read(in), cause);
    }
  }
}
