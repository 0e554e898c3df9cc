package io.weir.jobs.source;

import io.weir.jobs.kafka.Brokers;
import io.weir.jobs.message.RawMessage;
import io.weir.jobs.metrics.Metric;
import java.time.Duration;
import java.util.Collection;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The unparsed messages of all probes' topics. */
public final class Messages {
  public static final List<Metric> METRICS = List.of(SkippingReader.REFUSED, Arrivals.UNKNOWN);

  private Messages() {}

  /**
   * Creates the source.
   *
   * @param kinds of topics; at least one
   * @param probes regular expression over the names of the probes
   * @param start {@code committed}, {@code earliest} or {@code latest}, if there is no state
   * @param discovery how often to look for new topics
   */
  public static Source<RawMessage, ?, ?> source(
      Brokers brokers,
      String group,
      Collection<TopicKind> kinds,
      String probes,
      String start,
      Duration discovery) {
    Properties consumer = brokers.properties();
    Map<String, Object> own =
        Map.of(
            "group.id",
            group,
            "client.id.prefix",
            group,
            "partition.discovery.interval.ms",
            discovery.toMillis(),
            "allow.auto.create.topics",
            false,
            "enable.auto.commit",
            false,
            "commit.offsets.on.checkpoint",
            true,
            // A message has up to 8 MiB once decompressed and holds 500 records: few of each
            // partition at a time are enough, so that memory stays bounded and the partitions of a
            // backlog take turns.
            "max.poll.records",
            8,
            "max.partition.fetch.bytes",
            256 << 10,
            "fetch.max.bytes",
            16 << 20);
    own.forEach((name, value) -> consumer.setProperty(name, value.toString()));
    KafkaSource<RawMessage> source =
        KafkaSource.<RawMessage>builder()
            .setProperties(consumer)
            .setTopicPattern(topics(kinds, probes))
            .setStartingOffsets(new StartOffsets(start))
            .setDeserializer(new RawMessageDeserializer())
            .build();
    // What the builder sets in its own copy.
    String octets = ByteArrayDeserializer.class.getName();
    consumer.setProperty("key.deserializer", octets);
    consumer.setProperty("value.deserializer", octets);
    consumer.setProperty("auto.offset.reset", "earliest");
    return new KafkaMessages(source, consumer);
  }

  /** The names of the topics of these kinds and of the probes that {@code probes} matches. */
  static Pattern topics(Collection<TopicKind> kinds, String probes) {
    String prefix =
        EnumSet.copyOf(kinds).stream()
            .map(kind -> Pattern.quote(kind.prefix()))
            .collect(Collectors.joining("|", "(", ")"));
    return Pattern.compile(prefix + "(" + probes + ")");
  }
}
