package io.weir.jobs.source;

import io.weir.jobs.kafka.Brokers;
import java.util.Properties;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;

/** Turns elements that the jobs write to a topic into Kafka records. */
public abstract class KafkaRecords<T> implements KafkaRecordSerializationSchema<T> {
  private static final long serialVersionUID = 1;

  /** The sink that writes each element at least once; {@code producer} has further options. */
  protected KafkaSink<T> sink(Brokers brokers, Properties producer) {
    Properties both = brokers.properties();
    both.putAll(producer);
    return KafkaSink.<T>builder()
        .setBootstrapServers(brokers.addresses())
        .setKafkaProducerConfig(both)
        .setRecordSerializer(this)
        .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        .build();
  }
}
