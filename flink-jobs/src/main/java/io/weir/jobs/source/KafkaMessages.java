package io.weir.jobs.source;

import io.weir.jobs.message.RawMessage;
import java.io.IOException;
import java.util.Properties;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.java.typeutils.ResultTypeQueryable;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.source.reader.RecordsWithSplitIds;
import org.apache.flink.connector.base.source.reader.synchronization.FutureCompletingBlockingQueue;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.KafkaSourceEnumState;
import org.apache.flink.connector.kafka.source.metrics.KafkaSourceReaderMetrics;
import org.apache.flink.connector.kafka.source.reader.KafkaRecordEmitter;
import org.apache.flink.connector.kafka.source.reader.KafkaSourceReader;
import org.apache.flink.connector.kafka.source.reader.fetcher.KafkaSourceFetcherManager;
import org.apache.flink.connector.kafka.source.split.KafkaPartitionSplit;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * Flink's source of Kafka, in which every partition starts at a number, and which skips batches
 * that the jobs refuse to decompress ({@link SkippingReader}).
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

  /** Polls that wait for the job, beside the one that it processes: each has up to 64 MiB. */
  private static final int WAITING = 1;

  private final KafkaSource<RawMessage> source;
  private final Properties consumer;

  /** {@code consumer} has the properties with which the source was built. */
  KafkaMessages(KafkaSource<RawMessage> source, Properties consumer) {
    this.source = source;
    this.consumer = consumer;
  }

  @Override
  public Boundedness getBoundedness() {
    return source.getBoundedness();
  }

  @Override
  public SourceReader<RawMessage, KafkaPartitionSplit> createReader(SourceReaderContext context) {
    var queue =
        new FutureCompletingBlockingQueue<RecordsWithSplitIds<ConsumerRecord<byte[], byte[]>>>(
            WAITING);
    var metrics = new KafkaSourceReaderMetrics(context.metricGroup());
    Configuration configuration = new Configuration();
    consumer
        .stringPropertyNames()
        .forEach(name -> configuration.setString(name, consumer.getProperty(name)));
    return new KafkaSourceReader<>(
        queue,
        new KafkaSourceFetcherManager(
            queue, () -> new SkippingReader(consumer, context, metrics), finished -> {}),
        new KafkaRecordEmitter<>(new RawMessageDeserializer()),
        configuration,
        context,
        metrics);
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
