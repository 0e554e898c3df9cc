package io.weir.jobs.source;

import io.weir.jobs.kafka.Brokers;
import io.weir.jobs.message.DeadLetter;
import io.weir.jobs.message.RawMessage;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/**
 * Dead letters as Kafka records: the bytes unchanged, cause and origin in headers. A message of
 * more than {@link #MAX_VALUE} octets, which the producer would refuse, is truncated, and the
 * header {@code weir-truncated} states its original length.
 */
public final class DeadLetterRecords extends KafkaRecords<DeadLetter> {
  private static final long serialVersionUID = 1;

  /** The topic for unreadable messages. */
  public static final String TOPIC = "weir.dead-letters";

  /**
   * The broker refuses batches that {@link io.weir.kafka.BoundedCompression} does, and a dead
   * letter may be anything: one octet of LZ4 stands for 255 at most.
   */
  static final String COMPRESSION = "lz4";

  /** Maximum octets kept of a message; a record, with its headers, has at most 8 MiB. */
  static final int MAX_VALUE = 7 << 20;

  /** The sink of dead letters. */
  public static KafkaSink<DeadLetter> sink(Brokers brokers) {
    Properties properties = new Properties();
    properties.setProperty("compression.type", COMPRESSION);
    properties.setProperty("max.request.size", Integer.toString(8 << 20));
    return new DeadLetterRecords().sink(brokers, properties);
  }

  @Override
  public ProducerRecord<byte[], byte[]> serialize(
      DeadLetter letter, KafkaSinkContext context, Long timestamp) {
    RawMessage message = letter.message();
    List<Header> headers =
        new ArrayList<>(
            List.of(
                header("weir-cause", letter.cause()),
                header("weir-topic", message.topic()),
                header("weir-partition", Integer.toString(message.partition())),
                header("weir-offset", Long.toString(message.offset()))));
    byte[] value = message.value();
    if (value.length > MAX_VALUE) {
      headers.add(header("weir-truncated", Integer.toString(value.length)));
      value = Arrays.copyOf(value, MAX_VALUE);
    }
    return new ProducerRecord<>(TOPIC, null, null, null, value, headers);
  }

  private static Header header(String name, String value) {
    return new RecordHeader(name, value.getBytes(StandardCharsets.UTF_8));
  }
}
