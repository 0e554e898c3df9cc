package io.weir.jobs.enrich;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.proto.Prefix;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * The reader reads the topics completely first, then follows them; after a failure it reads them
 * again.
 */
class DeclaredTopicsTest {
  private static final TopicPartition PLACE = new TopicPartition("weir.prefixes", 0);
  private static final int ADDRESS = 0xc0000201; // 192.0.2.1

  private final BlockingQueue<Prefixes> taken = new LinkedBlockingQueue<>();
  private final BlockingQueue<MockConsumer<byte[], byte[]>> connections =
      new LinkedBlockingQueue<>();
  private final Refusals refusals = new Refusals();
  private final DeclaredTopics topics =
      new DeclaredTopics(
          () -> {
            try {
              return connections.take();
            } catch (InterruptedException e) {
              throw new org.apache.kafka.common.errors.InterruptException(e);
            }
          },
          (prefixes, probes, rules) -> taken.add(prefixes),
          refusals);
  private final Thread thread = new Thread(topics);

  @AfterEach
  void stop() throws InterruptedException {
    thread.interrupt();
    thread.join(10_000);
    assertTrue(!thread.isAlive(), "it ends when it is interrupted");
  }

  private static MockConsumer<byte[], byte[]> kafka(boolean hasTopic, long end) {
    MockConsumer<byte[], byte[]> consumer = new MockConsumer<>("none");
    if (hasTopic) {
      Node node = new Node(0, "", 0);
      Node[] nodes = {node};
      consumer.updatePartitions(
          PLACE.topic(), List.of(new PartitionInfo(PLACE.topic(), 0, node, nodes, nodes)));
      consumer.updateBeginningOffsets(Map.of(PLACE, 0L));
      consumer.updateEndOffsets(Map.of(PLACE, end));
    }
    return consumer;
  }

  private static ConsumerRecord<byte[], byte[]> message(long offset, int id) {
    Prefix prefix = Prefix.newBuilder().setMajor(1).setPrefix("192.0.2.0/24").setId(id).build();
    byte[] key = prefix.getPrefix().getBytes(StandardCharsets.UTF_8);
    return new ConsumerRecord<>(
        PLACE.topic(), 0, offset, key, id == 0 ? null : prefix.toByteArray());
  }

  private int next() throws InterruptedException {
    Prefixes prefixes = taken.poll(60, TimeUnit.SECONDS);
    AddressTable table = AddressTable.of(prefixes.places());
    return prefixes.id(table.value(table.find(ADDRESS), 0));
  }

  @Test
  void nothingHoldsBeforeAllIsReadAndThenEveryChange() throws Exception {
    MockConsumer<byte[], byte[]> kafka = kafka(true, 3);
    kafka.schedulePollTask(() -> kafka.addRecord(message(0, 1)));
    kafka.schedulePollTask(
        () ->
            kafka.addRecord(
                new ConsumerRecord<>(PLACE.topic(), 0, 1, new byte[] {'x'}, new byte[] {1})));
    kafka.schedulePollTask(() -> kafka.addRecord(message(2, 2)));
    connections.add(kafka);
    thread.start();
    assertEquals(2, next(), "the first table is that of the end");
    assertTrue(topics.whole().await(60, TimeUnit.SECONDS));
    assertEquals(1, refusals.counts().get("malformed").sum());
    kafka.addRecord(message(3, 3));
    assertEquals(3, next());
    kafka.addRecord(message(4, 0));
    assertEquals(0, next());
  }

  @Test
  void afterAFailureAllIsReadAgain() throws Exception {
    MockConsumer<byte[], byte[]> first = kafka(true, 1);
    first.schedulePollTask(() -> first.addRecord(message(0, 1)));
    MockConsumer<byte[], byte[]> second = kafka(true, 1);
    second.schedulePollTask(() -> second.addRecord(message(0, 5)));
    connections.add(first);
    connections.add(second);
    thread.start();
    assertEquals(1, next());
    first.setPollException(new KafkaException("gone"));
    assertEquals(5, next());
    assertEquals(1, refusals.counts().get("unreachable").sum());
  }

  @Test
  void aTopicThatIsNotThereIsAnEmptyOne() throws Exception {
    connections.add(kafka(false, 0));
    thread.start();
    assertEquals(0, next());
    assertTrue(topics.whole().await(60, TimeUnit.SECONDS));
  }
}
