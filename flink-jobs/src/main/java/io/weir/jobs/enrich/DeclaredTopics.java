package io.weir.jobs.enrich;

import io.weir.jobs.kafka.Brokers;
import io.weir.proto.Rule;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Follows the topics of {@link Declarations}: reads them from the beginning, then new messages as
 * they arrive, until its thread is interrupted. After a failure, and when a topic appears or
 * disappears, it reads all topics again; until it has finished, the previous data stays in use. A
 * missing topic counts as an empty one.
 */
final class DeclaredTopics implements Runnable {
  /** Changes within this time are combined into one new table. */
  private static final long COALESCE_MS = 300;

  private static final long POLL_MS = 500;
  private static final long RETRY_MS = 1_000;
  private static final long TOPICS_EVERY_MS = 5_000;

  /** Receives the declarations from now on. */
  interface Taker {
    void take(Prefixes prefixes, Map<String, Known.Probe> probes, List<Rule> rules);
  }

  private final Supplier<Consumer<byte[], byte[]>> connect;
  private final Taker taker;
  private final Refusals refusals;
  private final CountDownLatch whole = new CountDownLatch(1);

  DeclaredTopics(Supplier<Consumer<byte[], byte[]>> connect, Taker taker, Refusals refusals) {
    this.connect = connect;
    this.taker = taker;
    this.refusals = refusals;
  }

  /** Connects to Kafka without a group: every process reads everything. */
  static Consumer<byte[], byte[]> consumer(Brokers brokers) {
    Properties properties = brokers.properties();
    properties.setProperty("client.id", "weir-enrichment");
    properties.setProperty("allow.auto.create.topics", "false");
    properties.setProperty("enable.auto.commit", "false");
    // Fails if a topic was removed and created again, so that it is read again.
    properties.setProperty("auto.offset.reset", "none");
    properties.setProperty("max.poll.records", "10000");
    properties.setProperty("default.api.timeout.ms", "10000");
    return new KafkaConsumer<>(
        properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
  }

  /** Opens once all messages that were in the topics at the start have been read. */
  CountDownLatch whole() {
    return whole;
  }

  @Override
  public void run() {
    while (!Thread.currentThread().isInterrupted()) {
      try (Consumer<byte[], byte[]> consumer = connect.get()) {
        follow(consumer);
      } catch (InterruptException | InterruptedException e) {
        return;
      } catch (RuntimeException e) {
        refusals.add(
            Refusals.UNREACHABLE, "cannot read prefixes, probes and rules, trying again: {}", e);
        try {
          Thread.sleep(RETRY_MS);
        } catch (InterruptedException interrupted) {
          return;
        }
      }
    }
  }

  private void follow(Consumer<byte[], byte[]> consumer) throws InterruptedException {
    List<TopicPartition> places = places(consumer);
    consumer.assign(places);
    consumer.seekToBeginning(places);
    Map<TopicPartition, Long> ends = consumer.endOffsets(places);
    Declarations declarations = new Declarations();
    boolean complete = false;
    boolean changed = true; // also where nothing is declared: that may be new
    long changedAt = 0;
    long lookAgain = System.currentTimeMillis() + TOPICS_EVERY_MS;
    while (!Thread.currentThread().isInterrupted()) {
      if (places.isEmpty()) {
        complete = true;
      } else {
        Duration wait = Duration.ofMillis(complete && changed ? COALESCE_MS / 3 : POLL_MS);
        for (ConsumerRecord<byte[], byte[]> message : consumer.poll(wait)) {
          apply(declarations, message);
          changedAt = changed ? changedAt : System.currentTimeMillis();
          changed = true;
        }
        complete = complete || places.stream().allMatch(p -> consumer.position(p) >= ends.get(p));
      }
      long now = System.currentTimeMillis();
      if (complete && changed && now - changedAt >= COALESCE_MS) {
        taker.take(declarations.prefixes(), declarations.probes(), declarations.rules());
        whole.countDown();
        changed = false;
      }
      if (now >= lookAgain) {
        if (!places(consumer).equals(places)) {
          return;
        }
        lookAgain = now + TOPICS_EVERY_MS;
      }
      if (places.isEmpty()) {
        Thread.sleep(POLL_MS);
      }
    }
  }

  private static List<TopicPartition> places(Consumer<byte[], byte[]> consumer) {
    List<TopicPartition> places = new ArrayList<>();
    for (String topic : List.of(Declarations.PREFIXES, Declarations.PROBES, Declarations.RULES)) {
      List<PartitionInfo> partitions = consumer.partitionsFor(topic);
      if (partitions != null) {
        partitions.forEach(one -> places.add(new TopicPartition(topic, one.partition())));
      }
    }
    return places;
  }

  private void apply(Declarations declarations, ConsumerRecord<byte[], byte[]> message) {
    String key = message.key() == null ? "" : new String(message.key(), StandardCharsets.UTF_8);
    try {
      declarations.apply(message.topic(), key, message.value());
    } catch (Declarations.Refused e) {
      refusals.add(
          e.reason.word(),
          "left out {} offset {} ({}): {}",
          message.topic(),
          message.offset(),
          key.length() > 100 ? key.substring(0, 100) + "..." : key,
          e.reason.word());
    }
  }
}
