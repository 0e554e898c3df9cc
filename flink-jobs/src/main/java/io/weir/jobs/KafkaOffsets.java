package io.weir.jobs;

import io.weir.jobs.graph.Options;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.flink.connector.kafka.source.split.KafkaPartitionSplit;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Offsets of partitions from which a source has read nothing yet. */
final class KafkaOffsets {
  private static final Duration TIMEOUT = Duration.ofSeconds(10);

  private KafkaOffsets() {}

  /**
   * Returns the same partitions, each with the offset at which the source would begin now. Asks
   * Kafka only if one has none; a partition that Kafka no longer has stays as it is.
   */
  static List<KafkaPartitionSplit> found(List<KafkaPartitionSplit> splits, Options options) {
    Set<TopicPartition> unread = new HashSet<>();
    for (KafkaPartitionSplit split : splits) {
      if (split.getStartingOffset() < 0) {
        unread.add(split.getTopicPartition());
      }
    }
    if (unread.isEmpty()) {
      return splits;
    }
    Properties properties = options.brokers.properties();
    properties.setProperty("group.id", options.group);
    properties.setProperty("default.api.timeout.ms", Long.toString(TIMEOUT.toMillis()));
    ByteArrayDeserializer octets = new ByteArrayDeserializer();
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties, octets, octets)) {
      unread.retainAll(
          consumer.listTopics().values().stream()
              .flatMap(List::stream)
              .map(one -> new TopicPartition(one.topic(), one.partition()))
              .toList());
      Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(unread);
      Map<TopicPartition, Long> begins = consumer.beginningOffsets(unread);
      Map<TopicPartition, Long> ends = consumer.endOffsets(unread);
      List<KafkaPartitionSplit> found = new ArrayList<>();
      for (KafkaPartitionSplit split : splits) {
        TopicPartition place = split.getTopicPartition();
        if (!unread.contains(place)) {
          found.add(split);
          continue;
        }
        OffsetAndMetadata of = committed.get(place);
        long marker = split.getStartingOffset();
        long offset;
        if (marker == KafkaPartitionSplit.COMMITTED_OFFSET && of != null) {
          offset = of.offset();
        } else if (marker == KafkaPartitionSplit.COMMITTED_OFFSET
            || marker == KafkaPartitionSplit.EARLIEST_OFFSET) {
          offset = begins.get(place);
        } else {
          offset = ends.get(place);
        }
        found.add(new KafkaPartitionSplit(place, offset));
      }
      return found;
    }
  }
}
