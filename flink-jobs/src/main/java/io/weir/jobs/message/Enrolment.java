package io.weir.jobs.message;

import io.weir.jobs.serde.WireSerializer;
import io.weir.jobs.serde.WireType;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * The probes that have a flows topic, as Kafka listed them.
 *
 * @param at when, ms from 1970
 * @param probes in the order of their names
 */
public record Enrolment(long at, List<Probe> probes) {
  public static final WireType<Enrolment> TYPE = new WireType<>(Enrolment.class, new Serializer());

  /**
   * A probe and its partitions, by number.
   *
   * @param begin first offset that Kafka still has
   * @param end offset that the next message will get
   */
  public record Probe(String name, long[] begin, long[] end) {}

  /** Writes an {@link Enrolment}. */
  public static final class Serializer extends WireSerializer<Enrolment> {
    private static final long serialVersionUID = 1;

    @Override
    public void write(Enrolment enrolment, DataOutputView out) throws IOException {
      out.writeLong(enrolment.at);
      out.writeInt(enrolment.probes.size());
      for (Probe probe : enrolment.probes) {
        out.writeUTF(probe.name);
        out.writeInt(probe.begin.length);
        for (int i = 0; i < probe.begin.length; i++) {
          out.writeLong(probe.begin[i]);
          out.writeLong(probe.end[i]);
        }
      }
    }

    @Override
    public Enrolment read(DataInputView in) throws IOException {
      long at = in.readLong();
      List<Probe> probes = new ArrayList<>();
      for (int left = in.readInt(); left > 0; left--) {
        String name = in.readUTF();
        long[] begin = new long[in.readInt()];
        long[] end = new long[begin.length];
        for (int i = 0; i < begin.length; i++) {
          begin[i] = in.readLong();
          end[i] = in.readLong();
        }
        probes.add(new Probe(name, begin, end));
      }
      return new Enrolment(at, probes);
    }
  }
}
