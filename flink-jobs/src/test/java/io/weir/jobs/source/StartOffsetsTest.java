package io.weir.jobs.source;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer.PartitionOffsetsRetriever;
import org.apache.flink.connector.kafka.source.split.KafkaPartitionSplit;
import org.apache.flink.connector.kafka.source.split.KafkaPartitionSplitSerializer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

class StartOffsetsTest {
  private static final TopicPartition READ = new TopicPartition("weir.flows.oslo-1", 0);
  private static final TopicPartition NEW = new TopicPartition("weir.flows.oslo-2", 0);

  /** A Kafka with a group that has read one of the partitions. */
  private static final class Kafka implements PartitionOffsetsRetriever {
    @Override
    public Map<TopicPartition, Long> committedOffsets(Collection<TopicPartition> partitions) {
      return Map.of(READ, 40L);
    }

    @Override
    public Map<TopicPartition, Long> endOffsets(Collection<TopicPartition> partitions) {
      Map<TopicPartition, Long> ends = new HashMap<>();
      partitions.forEach(partition -> ends.put(partition, 90L));
      return ends;
    }

    @Override
    public Map<TopicPartition, Long> beginningOffsets(Collection<TopicPartition> partitions) {
      throw new UnsupportedOperationException("a topic that is gone has no answer");
    }

    @Override
    public Map<TopicPartition, OffsetAndTimestamp> offsetsForTimes(
        Map<TopicPartition, Long> times) {
      throw new UnsupportedOperationException("a topic that is gone has no answer");
    }
  }

  private static Map<TopicPartition, Long> offsets(String start) {
    return new StartOffsets(start).getPartitionOffsets(List.of(READ, NEW), new Kafka());
  }

  @Test
  void soDoesEachThatIsDiscoveredLater() throws Exception {
    var splits = new KafkaMessages.Numbered(new KafkaPartitionSplitSerializer());
    for (long[] expected :
        new long[][] {{KafkaPartitionSplit.EARLIEST_OFFSET, 0}, {0, 0}, {40, 40}}) {
      byte[] sent = splits.serialize(new KafkaPartitionSplit(NEW, expected[0]));
      KafkaPartitionSplit got = splits.deserialize(splits.getVersion(), sent);
      assertEquals(new KafkaPartitionSplit(NEW, expected[1]), got);
    }
  }

  @Test
  void eachPartitionStartsAtANumber() {
    assertEquals(Map.of(READ, 40L, NEW, 0L), offsets("committed"));
    assertEquals(Map.of(READ, 0L, NEW, 0L), offsets("earliest"));
    assertEquals(Map.of(READ, 90L, NEW, 90L), offsets("latest"));
  }
}
