package io.weir.jobs.alerts;

import io.weir.jobs.serde.Octets;
import io.weir.jobs.serde.WireSerializer;
import io.weir.jobs.serde.WireType;
import io.weir.jobs.table.Table;
import io.weir.jobs.table.TableRow;
import io.weir.proto.Alert;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
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

  private static long[] ports(List<Integer> ports) {
    return ports.stream().mapToLong(Integer::toUnsignedLong).toArray();
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
      version,
      alert.getSubjectKind(),
      alert.getTechnique(),
      alert.getPeersMap(),
      ports(alert.getPortsList()),
      alert.getProbesMap(),
      alert.getScore(),
      alert.getThreshold(),
      alert.getQuery()
    };
    return new TableRow(table, cells);
  }

  /** The id of an alert: a hash of what all its messages share. */
  public static String id(String reason, String probe, String subject, long openedMs) {
    String text = String.join("\n", reason, probe, subject, Long.toString(openedMs));
    try {
      byte[] hash =
          MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
      return HexFormat.of().formatHex(Arrays.copyOf(hash, 16));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e); // every Java has it
    }
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
