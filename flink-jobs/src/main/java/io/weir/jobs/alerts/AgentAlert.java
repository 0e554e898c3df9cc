package io.weir.jobs.alerts;

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
 * @param appended when the broker received it, see {@link io.weir.jobs.message.RawMessage#appended}
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
      AlertMessage.TYPE.serializer().write(new AlertMessage(value.alert, 0), out);
      out.writeLong(value.offset);
      out.writeLong(value.appended);
    }

    @Override
    public AgentAlert read(DataInputView in) throws IOException {
      Alert alert = AlertMessage.TYPE.serializer().read(in).alert();
      return new AgentAlert(alert, in.readLong(), in.readLong());
    }
  }
}
