package io.weir.jobs.source;

import io.weir.jobs.metrics.Metric;
import io.weir.kafka.RefusedBatch;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.connector.base.source.reader.RecordsBySplits;
import org.apache.flink.connector.base.source.reader.RecordsWithSplitIds;
import org.apache.flink.connector.base.source.reader.splitreader.SplitsAddition;
import org.apache.flink.connector.kafka.source.metrics.KafkaSourceReaderMetrics;
import org.apache.flink.connector.kafka.source.reader.KafkaPartitionSplitReader;
import org.apache.flink.connector.kafka.source.split.KafkaPartitionSplit;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.MetricGroup;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads partitions, and goes on behind a batch that {@link io.weir.kafka.BoundedCompression}
 * refuses. An empty message takes its place, at its last offset, which becomes a dead letter.
 */
final class SkippingReader extends KafkaPartitionSplitReader {
  private static final Logger LOG = LoggerFactory.getLogger(SkippingReader.class);

  static final Metric REFUSED =
      Metric.counter(
          "refused_batches",
          "kafka",
          "Kafka's batches that the jobs skipped instead of decompressing them, by `cause`"
              + " (scope `weir_cause`)");

  /** Kafka's text is the only place where it names the partition. */
  private static final Pattern PARTITION =
      Pattern.compile("Received exception when fetching the next record from (.+)-(\\d+)\\. .*");

  private final MetricGroup metrics;
  private final Map<String, Counter> refusals = new HashMap<>();

  SkippingReader(
      Properties properties, SourceReaderContext context, KafkaSourceReaderMetrics metrics) {
    super(properties, context, metrics);
    this.metrics = context.metricGroup();
  }

  @Override
  public RecordsWithSplitIds<ConsumerRecord<byte[], byte[]>> fetch() throws IOException {
    try {
      return super.fetch();
    } catch (KafkaException e) {
      TopicPartition partition = partition(e.getMessage()).orElse(null);
      if (partition == null || !(e.getCause() instanceof RefusedBatch refused)) {
        throw e;
      }
      return skip(partition, refused);
    }
  }

  private RecordsWithSplitIds<ConsumerRecord<byte[], byte[]>> skip(
      TopicPartition partition, RefusedBatch refused) {
    String cause = refused.why().name().toLowerCase(Locale.ROOT);
    refusals.computeIfAbsent(cause, c -> REFUSED.register(metrics, c)).inc();
    LOG.warn(
        "skipped {} up to offset {}: {}", partition, refused.lastOffset(), refused.getMessage());
    handleSplitsChanges(
        new SplitsAddition<>(
            List.of(new KafkaPartitionSplit(partition, refused.lastOffset() + 1))));
    RecordsBySplits.Builder<ConsumerRecord<byte[], byte[]>> records =
        new RecordsBySplits.Builder<>();
    records.add(KafkaPartitionSplit.toSplitId(partition), standIn(partition, refused));
    return records.build();
  }

  /** A message without a value. */
  static ConsumerRecord<byte[], byte[]> standIn(TopicPartition partition, RefusedBatch refused) {
    return new ConsumerRecord<>(
        partition.topic(),
        partition.partition(),
        refused.lastOffset(),
        refused.appended(),
        TimestampType.LOG_APPEND_TIME,
        ConsumerRecord.NULL_SIZE,
        ConsumerRecord.NULL_SIZE,
        null,
        null,
        new RecordHeaders(),
        Optional.empty());
  }

  /** The partition that Kafka's text names. */
  static Optional<TopicPartition> partition(String text) {
    Matcher found = PARTITION.matcher(String.valueOf(text));
    return found.matches()
        ? Optional.of(new TopicPartition(found.group(1), Integer.parseInt(found.group(2))))
        : Optional.empty();
  }
}
