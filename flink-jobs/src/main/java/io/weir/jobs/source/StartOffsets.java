package io.weir.jobs.source;

import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.common.TopicPartition;

/**
 * Where the jobs start to read a partition that is in no state of theirs, as a number.
 *
 * <p>The connector's own initializers leave a mark ("the committed offset") in the state until the
 * first message comes, and every reader asks Kafka what it means. If the topic has been removed by
 * then, there is no answer, and the jobs fail each time they start. A number needs no answer: if it
 * is below the oldest message, Kafka's reset leads to that one.
 */
@SuppressWarnings("deprecation") // the connector takes no other type
final class StartOffsets implements OffsetsInitializer {
  private static final long serialVersionUID = 1;

  private final String start;

  /** {@code start}: committed (the oldest message if there is none), earliest or latest. */
  StartOffsets(String start) {
    this.start = start;
  }

  @Override
  public Map<TopicPartition, Long> getPartitionOffsets(
      Collection<TopicPartition> partitions, PartitionOffsetsRetriever kafka) {
    Map<TopicPartition, Long> known =
        switch (start) {
          case "earliest" -> Map.of();
          case "latest" -> kafka.endOffsets(partitions);
          default -> kafka.committedOffsets(partitions);
        };
    Map<TopicPartition, Long> offsets = new HashMap<>();
    partitions.forEach(partition -> offsets.put(partition, known.getOrDefault(partition, 0L)));
    return offsets;
  }

  @Override
  public OffsetResetStrategy getAutoOffsetResetStrategy() {
    return OffsetResetStrategy.EARLIEST;
  }
}
