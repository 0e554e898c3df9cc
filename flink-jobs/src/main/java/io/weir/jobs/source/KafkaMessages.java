package io.weir.jobs.source;

import io.weir.jobs.message.RawMessage;
import java.io.IOException;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.java.typeutils.ResultTypeQueryable;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.KafkaSourceEnumState;
import org.apache.flink.connector.kafka.source.split.KafkaPartitionSplit;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * Flink's source of Kafka, in which every partition starts at a number.
 *
 * <p>For partitions that the connector discovers while it runs, it puts a mark ("the oldest
 * message") into the state until the first message comes, and every reader asks Kafka what it means
 * ({@link StartOffsets} has the others). If the topic has been removed by then, there is no answer,
 * and the jobs fail each time they start. The number 0 means the same and needs no answer: if it is
 * below the oldest message, Kafka's reset leads to that one.
 */
final class KafkaMessages
    implements Source<RawMessage, KafkaPartitionSplit, KafkaSourceEnumState>,
        ResultTypeQueryable<RawMessage> {
  private static final long serialVersionUID = 1;

  private final KafkaSource<RawMessage> source;

  KafkaMessages(KafkaSource<RawMessage> source) {
    this.source = source;
  }

  @Override
  public Boundedness getBoundedness() {
    return source.getBoundedness();
  }

  @Override
  public SourceReader<RawMessage, KafkaPartitionSplit> createReader(SourceReaderContext context)
      throws Exception {
    return source.createReader(context);
  }

  @Override
  public SplitEnumerator<KafkaPartitionSplit, KafkaSourceEnumState> createEnumerator(
      SplitEnumeratorContext<KafkaPartitionSplit> context) {
    return source.createEnumerator(context);
  }

  @Override
  public SplitEnumerator<KafkaPartitionSplit, KafkaSourceEnumState> restoreEnumerator(
      SplitEnumeratorContext<KafkaPartitionSplit> context, KafkaSourceEnumState state)
      throws IOException {
    return source.restoreEnumerator(context, state);
  }

  @Override
  public SimpleVersionedSerializer<KafkaPartitionSplit> getSplitSerializer() {
    return new Numbered(source.getSplitSerializer());
  }

  @Override
  public SimpleVersionedSerializer<KafkaSourceEnumState> getEnumeratorCheckpointSerializer() {
    return source.getEnumeratorCheckpointSerializer();
  }

  @Override
  public TypeInformation<RawMessage> getProducedType() {
    return source.getProducedType();
  }

  /** Readers get their splits through this, new ones and restored ones. */
  record Numbered(SimpleVersionedSerializer<KafkaPartitionSplit> splits)
      implements SimpleVersionedSerializer<KafkaPartitionSplit> {
    @Override
    public int getVersion() {
      return splits.getVersion();
    }

    @Override
    public byte[] serialize(KafkaPartitionSplit split) throws IOException {
      return splits.serialize(split);
    }

    @Override
    public KafkaPartitionSplit deserialize(int version, byte[] serialized) throws IOException {
      KafkaPartitionSplit split = splits.deserialize(version, serialized);
      return split.getStartingOffset() == KafkaPartitionSplit.EARLIEST_OFFSET
          ? new KafkaPartitionSplit(split.getTopicPartition(), 0)
          : split;
    }
  }
}
