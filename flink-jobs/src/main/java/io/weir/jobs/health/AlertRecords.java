package io.weir.jobs.health;

import java.nio.charset.StandardCharsets;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Alerts as Kafka records: the key is the alert's id, so that the messages of one alert stay in
 * order.
 */
public final class AlertRecords implements KafkaRecordSerializationSchema<HealthAlert> {
  private static final long serialVersionUID = 1;

  /** The topic of all alerts. */
  public static final String TOPIC = "weir.alerts";

  /** The sink of alerts. */
  static KafkaSink<HealthAlert> sink(String brokers) {
    return KafkaSink.<HealthAlert>builder()
        .setBootstrapServers(brokers)
        .setRecordSerializer(new AlertRecords())
        .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        .build();
  }

  @Override
  public ProducerRecord<byte[], byte[]> serialize(
      HealthAlert alert, KafkaSinkContext context, Long timestamp) {
    byte[] key = alert.alert().getId().getBytes(StandardCharsets.UTF_8);
    return new ProducerRecord<>(TOPIC, key, alert.alert().toByteArray());
  }
}
