package io.weir.jobs.alerts;

import io.weir.jobs.kafka.Brokers;
import io.weir.jobs.source.KafkaRecords;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Alerts as Kafka records: the key is the alert's id, so that the messages of one alert stay in
 * order.
 */
public final class AlertRecords extends KafkaRecords<AlertMessage> {
  private static final long serialVersionUID = 1;

  /** The topic of all alerts. */
  public static final String TOPIC = "weir.alerts";

  /** The sink of alerts. */
  public static KafkaSink<AlertMessage> sink(Brokers brokers) {
    return new AlertRecords().sink(brokers, new Properties());
  }

  @Override
  public ProducerRecord<byte[], byte[]> serialize(
      AlertMessage alert, KafkaSinkContext context, Long timestamp) {
    byte[] key = alert.alert().getId().getBytes(StandardCharsets.UTF_8);
    return new ProducerRecord<>(TOPIC, key, alert.alert().toByteArray());
  }
}
