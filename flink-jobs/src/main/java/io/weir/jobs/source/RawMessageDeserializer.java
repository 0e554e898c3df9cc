package io.weir.jobs.source;

import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * Hands Kafka messages on unread: what cannot be read must be set aside byte for byte, which is not
 * for here.
 */
public final class RawMessageDeserializer implements KafkaRecordDeserializationSchema<RawMessage> {
  private static final long serialVersionUID = 1;
  private static final byte[] EMPTY = {};

  @Override
  public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<RawMessage> out) {
    byte[] value = record.value() == null ? EMPTY : record.value();
    out.collect(new RawMessage(record.topic(), record.partition(), record.offset(), value));
  }

  @Override
  public TypeInformation<RawMessage> getProducedType() {
    return RawMessage.TYPE;
  }
}
