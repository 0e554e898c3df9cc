package io.weir.jobs.message;

import io.weir.jobs.serde.WireSerializer;
import io.weir.jobs.serde.WireType;
import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * One Kafka message as it came.
 *
 * @param appended when the broker took it in (ms from 1970, LogAppendTime); {@link #NO_TIME} where
 *     it is unknown
 */
public record RawMessage(String topic, int partition, long offset, long appended, byte[] value) {
  /** Kafka's word for a time that is unknown. */
  public static final long NO_TIME = -1;

  public static final WireType<RawMessage> TYPE =
      new WireType<>(RawMessage.class, new Serializer());

  /** Writes a {@link RawMessage}. */
  public static final class Serializer extends WireSerializer<RawMessage> {
    private static final long serialVersionUID = 1;

    @Override
    public void write(RawMessage message, DataOutputView out) throws IOException {
      out.writeUTF(message.topic);
      out.writeInt(message.partition);
      out.writeLong(message.offset);
      out.writeLong(message.appended);
      out.writeInt(message.value.length);
      out.write(message.value);
    }

    @Override
    public RawMessage read(DataInputView in) throws IOException {
      String topic = in.readUTF();
      int partition = in.readInt();
      long offset = in.readLong();
      long appended = in.readLong();
      byte[] value = new byte[in.readInt()];
      in.readFully(value);
      return new RawMessage(topic, partition, offset, appended, value);
    }
  }
}
