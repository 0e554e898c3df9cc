package io.weir.jobs.message;

import io.weir.jobs.serde.Octets;
import io.weir.jobs.serde.WireSerializer;
import io.weir.jobs.serde.WireType;
import io.weir.proto.Alert;
import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * An alert of an agent as it came, checked.
 *
 * @param offset of its message in the topic
 * @param appended when the broker received it, see {@link RawMessage#appended}
 */
public record AgentAlert(Alert alert, long offset, long appended) {
  public static final WireType<AgentAlert> TYPE =
      new WireType<>(AgentAlert.class, new Serializer());

  /** The probe whose agent sent it. */
  public String probe() {
    return alert.getProbe();
  }

  /** Writes an {@link AgentAlert}. */
  public static final class Serializer extends WireSerializer<AgentAlert> {
    private static final long serialVersionUID = 1;

    @Override
    public void write(AgentAlert value, DataOutputView out) throws IOException {
      Octets.write(value.alert.toByteArray(), out);
      out.writeLong(value.offset);
      out.writeLong(value.appended);
    }

    @Override
    public AgentAlert read(DataInputView in) throws IOException {
      return new AgentAlert(Alert.parseFrom(Octets.read(in)), in.readLong(), in.readLong());
    }
  }
}
