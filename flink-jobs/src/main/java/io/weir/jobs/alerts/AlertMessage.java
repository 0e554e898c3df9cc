package io.weir.jobs.alerts;

import io.weir.jobs.serde.Octets;
import io.weir.jobs.serde.WireSerializer;
import io.weir.jobs.serde.WireType;
import io.weir.jobs.table.Table;
import io.weir.jobs.table.TableRow;
import io.weir.proto.Alert;
import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** One opening, update or closing of an alert, with the number of this message, from 1. */
public record AlertMessage(Alert alert, int version) {
  public static final WireType<AlertMessage> TYPE =
      new WireType<>(AlertMessage.class, new Serializer());

  /** Converts it to a row of {@code alerts}, which holds values as whole numbers. */
  public TableRow row() {
    return row(Table.ALERTS);
  }

  /** Converts it to a row of {@code agent_alerts}. */
  public TableRow agentRow() {
    return row(Table.AGENT_ALERTS);
  }

  private TableRow row(Table table) {
    Map<String, Long> values = new TreeMap<>();
    alert.getValuesMap().forEach((name, value) -> values.put(name, Math.round(value)));
    Object[] cells = {
      alert.getOpenedMs() / 1000,
      alert.getId(),
      alert.getReason(),
      alert.getProbe(),
      alert.getSubject(),
      alert.getSeverityValue(),
      alert.getOpenedMs(),
      alert.getUpdatedMs(),
      alert.getClosedMs(),
      alert.getText(),
      values,
      version
    };
    return new TableRow(table, cells);
  }

  /** Writes a {@link AlertMessage}. */
  public static final class Serializer extends WireSerializer<AlertMessage> {
    private static final long serialVersionUID = 1;

    @Override
    public void write(AlertMessage value, DataOutputView out) throws IOException {
      Octets.write(value.alert.toByteArray(), out);
      out.writeInt(value.version);
    }

    @Override
    public AlertMessage read(DataInputView in) throws IOException {
      return new AlertMessage(Alert.parseFrom(Octets.read(in)), in.readInt());
    }
  }
}
