package io.weir.jobs.message;

import com.google.protobuf.InvalidProtocolBufferException;
import io.weir.jobs.serde.Octets;
import io.weir.jobs.serde.WireSerializer;
import io.weir.jobs.serde.WireType;
import io.weir.proto.CounterMessage;
import io.weir.proto.FlowMessage;
import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * A readable message that is not a repeat; or one that is left out, with only its worker and time
 * known, because windows follow how far each worker's messages have been read.
 *
 * @param flow the message, if from a flows topic, else null
 * @param counter the message, if from a counters topic, else null
 * @param enrichment of the records of a batch, else null
 * @param offset of the message in its partition
 * @param appended when the broker received the message, see {@link RawMessage#appended}
 */
public record Accepted(
    FlowMessage flow, CounterMessage counter, Enrichment enrichment, long offset, long appended) {
  public static final WireType<Accepted> TYPE = new WireType<>(Accepted.class, new Serializer());

  /** A message of a flows topic that is left out. */
  public static Accepted leftOutFlows(RawMessage raw, String probe) {
    FlowMessage header =
        FlowMessage.newBuilder().setProbe(probe).setWorker(raw.partition()).build();
    return new Accepted(header, null, null, raw.offset(), raw.appended());
  }

  /** A message of a counters topic that is left out; its interval has no length. */
  public static Accepted leftOutCounters(RawMessage raw, String probe) {
    CounterMessage header =
        CounterMessage.newBuilder().setProbe(probe).setWorker(raw.partition()).build();
    return new Accepted(null, header, null, raw.offset(), raw.appended());
  }

  /** Writes an {@link Accepted} unchanged; only used where operators are not chained. */
  public static final class Serializer extends WireSerializer<Accepted> {
    private static final long serialVersionUID = 1;

    @Override
    public void write(Accepted message, DataOutputView out) throws IOException {
      out.writeLong(message.offset);
      out.writeLong(message.appended);
      out.writeBoolean(message.flow != null);
      Octets.write(
          message.flow != null ? message.flow.toByteArray() : message.counter.toByteArray(), out);
      out.writeBoolean(message.enrichment != null);
      if (message.enrichment != null) {
        message.enrichment.write(out);
      }
    }

    @Override
    public Accepted read(DataInputView in) throws IOException {
      long offset = in.readLong();
      long appended = in.readLong();
      boolean flow = in.readBoolean();
      byte[] bytes = Octets.read(in);
      Enrichment enrichment = in.readBoolean() ? Enrichment.read(in) : null;
      try {
        return flow
            ? new Accepted(FlowMessage.parseFrom(bytes), null, enrichment, offset, appended)
            : new Accepted(null, CounterMessage.parseFrom(bytes), null, offset, appended);
      } catch (InvalidProtocolBufferException e) {
        throw new IOException(e);
      }
    }
  }
}
