package io.weir.jobs.tools;

import io.weir.jobs.Agent;
import io.weir.proto.FlowMessage;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Fills Kafka for trials: {@code Feed BROKERS PROBE WORKERS RECORDS RECORDS_PER_INTERVAL DISTINCT
 * [START_MS]}. Prints what it sent. With START_MS negative: live, one interval of a second each
 * second.
 */
public final class Feed {
  private Feed() {}

  public static void main(String[] a) throws Exception {
    Map<String, Object> where = Map.of("bootstrap.servers", a[0]);
    String topic = "weir.flows." + a[1];
    int workers = Integer.parseInt(a[2]);
    long records = Long.parseLong(a[3]);
    int perInterval = Integer.parseInt(a[4]);
    int distinct = Integer.parseInt(a[5]);
    boolean live = a.length > 6 && a[6].startsWith("-");
    long start = a.length > 6 && !live ? Long.parseLong(a[6]) : System.currentTimeMillis();
    int intervalMs = live ? 1000 : 10_000;
    start = start / intervalMs * intervalMs;
    try (Admin admin = Admin.create(where)) {
      create(admin, topic, workers);
      create(admin, "weir.dead-letters", 1);
    }
    Properties properties = new Properties();
    properties.put("bootstrap.servers", a[0]);
    properties.put("compression.type", "zstd");
    properties.put("linger.ms", "50");
    properties.put("batch.size", Integer.toString(256 << 10));
    properties.put("max.request.size", Integer.toString(4 << 20));
    Agent[] agents = new Agent[workers];
    for (int w = 0; w < workers; w++) {
      agents[w] =
          new Agent(a[1], w, workers, System.currentTimeMillis() * 1000, intervalMs)
              .distinct(distinct);
    }
    long sent = 0;
    long messages = 0;
    long began = System.nanoTime();
    try (KafkaProducer<byte[], byte[]> producer =
        new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
      while (sent < records) {
        for (int w = 0; w < workers; w++) {
          int now = (int) Math.min(perInterval, records - sent);
          sent += now;
          for (FlowMessage message :
              agents[w].interval(
                  start, now, 500, records - sent <= (long) perInterval * (workers - 1 - w))) {
            var unused = producer.send(new ProducerRecord<>(topic, w, null, message.toByteArray()));
            messages++;
          }
        }
        start += intervalMs;
        if (live) {
          Thread.sleep(Math.max(0, start - System.currentTimeMillis()));
        }
      }
    }
    long packets = 0;
    long octets = 0;
    for (Agent agent : agents) {
      packets += agent.packets();
      octets += agent.octets();
    }
    System.out.printf(
        "%d records, %d messages, %d packets, %d octets in %.1f s%n",
        sent, messages, packets, octets, (System.nanoTime() - began) / 1e9);
  }

  private static void create(Admin admin, String topic, int partitions) throws Exception {
    try {
      NewTopic wanted = new NewTopic(topic, Optional.of(partitions), Optional.empty());
      admin
          .createTopics(
              List.of(
                  wanted.configs(
                      Map.of(
                          "message.timestamp.type",
                          "LogAppendTime",
                          "max.message.bytes",
                          "4194304"))))
          .all()
          .get();
    } catch (ExecutionException e) {
      if (!(e.getCause() instanceof TopicExistsException)) {
        throw e;
      }
    }
  }
}
