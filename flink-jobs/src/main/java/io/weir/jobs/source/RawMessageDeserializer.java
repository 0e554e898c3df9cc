package io.weir.jobs.source;

import io.weir.jobs.message.RawMessage;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.record.TimestampType;

/**
 * Emits Kafka messages without parsing them: a later operator parses them, and sets unreadable ones
 * aside unchanged.
 */
public final class RawMessageDeserializer implements KafkaRecordDeserializationSchema<RawMessage> {
  private static final long serialVersionUID = 1;
  private static final byte[] EMPTY = {};

  @Override
  public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<RawMessage> out) {
    byte[] value = record.value() == null ? EMPTY : record.value();
    long appended =
        record.timestampType() == TimestampType.LOG_APPEND_TIME
            ? record.timestamp()
            : RawMessage.NO_TIME;
    out.collect(
        new RawMessage(record.topic(), record.partition(), record.offset(), appended, value));
  }

  @Override
  public TypeInformation<RawMessage> getProducedType() {
    return RawMessage.TYPE;
  }
}
