package io.weir.jobs.filters;

import io.weir.jobs.serde.WireSerializer;
import io.weir.jobs.serde.WireType;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * What the means of one scope hear: the counters of one worker and interval, or how many probes are
 * enrolled.
 *
 * @param scope a probe's name, or one of {@link Scopes#ALL}
 * @param enrolled number of probes; -1 where this is a message of counters
 * @param probe whose counters; empty with {@code enrolled}, as everything after it
 * @param worker that counted
 * @param epoch run of the agent
 * @param start of the interval, ms from 1970
 * @param length of the interval, ms
 * @param counters of the interval; labels that counted nothing may be absent
 */
record MeansMessage(
    String scope,
    int enrolled,
    String probe,
    int worker,
    long epoch,
    long start,
    int length,
    List<Counted> counters) {
  static final WireType<MeansMessage> TYPE = new WireType<>(MeansMessage.class, new Serializer());

  /** Packets and layer-3 octets of a label in the interval. */
  record Counted(Label label, long packets, long octets) {}

  static MeansMessage enrolled(String scope, int probes) {
    return new MeansMessage(scope, probes, "", 0, 0, 0, 0, List.of());
  }

  /** Writes a {@link MeansMessage}. */
  public static final class Serializer extends WireSerializer<MeansMessage> {
    private static final long serialVersionUID = 1;

    @Override
    public void write(MeansMessage message, DataOutputView out) throws IOException {
      out.writeUTF(message.scope);
      out.writeInt(message.enrolled);
      out.writeUTF(message.probe);
      out.writeInt(message.worker);
      out.writeLong(message.epoch);
      out.writeLong(message.start);
      out.writeInt(message.length);
      out.writeInt(message.counters.size());
      for (Counted counted : message.counters) {
        out.writeUTF(counted.label.set());
        out.writeUTF(counted.label.label());
        out.writeLong(counted.packets);
        out.writeLong(counted.octets);
      }
    }

    @Override
    public MeansMessage read(DataInputView in) throws IOException {
      String scope = in.readUTF();
      int enrolled = in.readInt();
      String probe = in.readUTF();
      int worker = in.readInt();
      long epoch = in.readLong();
      long start = in.readLong();
      int length = in.readInt();
      int count = in.readInt();
      List<Counted> counters = new ArrayList<>(count);
      for (int i = 0; i < count; i++) {
        Label label = new Label(in.readUTF(), in.readUTF());
        counters.add(new Counted(label, in.readLong(), in.readLong()));
      }
      return new MeansMessage(scope, enrolled, probe, worker, epoch, start, length, counters);
    }
  }
}
