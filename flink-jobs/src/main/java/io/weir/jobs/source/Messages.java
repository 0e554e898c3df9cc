package io.weir.jobs.source;

import io.weir.jobs.kafka.Brokers;
import io.weir.jobs.message.RawMessage;
import java.time.Duration;
import java.util.Collection;
import java.util.EnumSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.connector.kafka.source.KafkaSource;

/** The unparsed messages of all probes' topics. */
public final class Messages {
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
    return new KafkaMessages(
        KafkaSource.<RawMessage>builder()
            .setProperties(brokers.properties())
            .setGroupId(group)
            .setTopicPattern(topics(kinds, probes))
            .setStartingOffsets(new StartOffsets(start))
            .setDeserializer(new RawMessageDeserializer())
            .setProperty("client.id.prefix", group)
            .setProperty("partition.discovery.interval.ms", Long.toString(discovery.toMillis()))
            .setProperty("allow.auto.create.topics", "false")
            .setProperty("commit.offsets.on.checkpoint", "true")
            // A message is up to 4 MiB and holds 500 records: few of each partition at a time are
            // enough, so that memory stays bounded and the partitions of a backlog take turns.
            .setProperty("max.poll.records", "40")
            .setProperty("max.partition.fetch.bytes", Integer.toString(256 << 10))
            .setProperty("fetch.max.bytes", Integer.toString(16 << 20))
            .build());
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
