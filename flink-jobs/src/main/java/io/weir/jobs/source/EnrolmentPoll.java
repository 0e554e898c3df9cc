package io.weir.jobs.source;

import static io.weir.jobs.source.Arrivals.UNKNOWN;

import io.weir.jobs.kafka.Brokers;
import io.weir.jobs.message.Enrolment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.function.ToLongFunction;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Regularly asks Kafka for the enrolled probes that the jobs read, the end offsets of their
 * partitions, and when the newest message of each arrived. A separate thread queries Kafka; the
 * source passes on the newest answer, so an outage of Kafka blocks nothing. Without an answer it
 * emits no element.
 */
public final class EnrolmentPoll implements GeneratorFunction<Long, Enrolment> {
  private static final long serialVersionUID = 1;
  private static final Logger LOG = LoggerFactory.getLogger(EnrolmentPoll.class);
  private static final int TIMEOUT_MS = 10_000;

  private final Brokers brokers;
  private final Pattern topics;
  private final long everyMs;

  private transient Arrivals arrivals;
  private transient Thread thread;
  private transient volatile Enrolment newest;

  EnrolmentPoll(Brokers brokers, String probes, Duration every) {
    this.brokers = brokers;
    topics = Messages.topics(List.of(TopicKind.FLOWS), probes);
    this.everyMs = every.toMillis();
  }

  /**
   * The stream of answers.
   *
   * @param probes regular expression over the names of the probes
   */
  public static DataStream<Enrolment> stream(
      StreamExecutionEnvironment environment, Brokers brokers, String probes, Duration every) {
    DataGeneratorSource<Enrolment> source =
        new DataGeneratorSource<>(
            new EnrolmentPoll(brokers, probes, every),
            Long.MAX_VALUE,
            RateLimiterStrategy.perSecond(1000.0 / every.toMillis()),
            Enrolment.TYPE);
    return environment
        .fromSource(source, WatermarkStrategy.noWatermarks(), "enrolment")
        .uid("enrolment")
        .setParallelism(1)
        .filter(enrolment -> enrolment.at() > 0)
        .name("enrolment-known")
        .uid("enrolment-known")
        .setParallelism(1);
  }

  @Override
  public void open(SourceReaderContext context) {
    newest = new Enrolment(0, List.of());
    Map<String, Counter> causes = new HashMap<>();
    MetricGroup metrics = context.metricGroup();
    arrivals =
        new Arrivals(
            cause -> causes.computeIfAbsent(cause, c -> UNKNOWN.register(metrics, c)).inc());
    thread = new Thread(this::poll, "enrolment");
    thread.setDaemon(true);
    thread.setContextClassLoader(context.getUserCodeClassLoader().asClassLoader());
    thread.start();
  }

  @Override
  public Enrolment map(Long number) {
    return newest;
  }

  @Override
  public void close() throws Exception {
    if (thread != null) {
      thread.interrupt();
      thread.join(1_000);
    }
  }

  private void poll() {
    Properties properties = brokers.properties();
    properties.setProperty("client.id", "weir-enrolment");
    properties.setProperty("default.api.timeout.ms", Integer.toString(TIMEOUT_MS));
    properties.setProperty("request.timeout.ms", Integer.toString(TIMEOUT_MS / 2));
    boolean told = false;
    ClockCheck clock = new ClockCheck();
    while (!Thread.currentThread().isInterrupted()) {
      try (Admin admin = Admin.create(properties)) {
        while (true) {
          newest = clock.check(ask(admin), System.nanoTime() / 1_000_000);
          told = false;
          Thread.sleep(Math.max(500, everyMs / 2));
        }
      } catch (InterruptedException | org.apache.kafka.common.errors.InterruptException e) {
        return;
      } catch (Exception e) {
        if (!told) {
          LOG.warn("cannot list the enrolled probes in Kafka: {}", e.toString());
          told = true;
        }
        try {
          Thread.sleep(1_000);
        } catch (InterruptedException interrupted) {
          return;
        }
      }
    }
  }

  /** The topics of the probes that the jobs read; other jobs may read the others. */
  List<String> own(Collection<String> all) {
    return all.stream().filter(topic -> topics.matcher(topic).matches()).toList();
  }

  private Enrolment ask(Admin admin) throws Exception {
    long at = System.currentTimeMillis();
    Set<String> all = admin.listTopics().names().get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
    Map<String, Integer> flows = new TreeMap<>();
    Map<String, Integer> counters = new HashMap<>();
    List<String> topics = own(all);
    List<String> described = new ArrayList<>(topics);
    topics.stream().map(EnrolmentPoll::counters).filter(all::contains).forEach(described::add);
    admin
        .describeTopics(described)
        .allTopicNames()
        .get(TIMEOUT_MS, TimeUnit.MILLISECONDS)
        .forEach(
            (topic, description) ->
                (TopicKind.of(topic) == TopicKind.FLOWS ? flows : counters)
                    .put(topic, description.partitions().size()));
    // The end offsets after `at`: all messages written before `at` are below them.
    Map<TopicPartition, ListOffsetsResultInfo> ends = offsets(admin, flows, OffsetSpec.latest());
    Map<TopicPartition, ListOffsetsResultInfo> begins =
        offsets(admin, flows, OffsetSpec.earliest());
    ends.putAll(offsets(admin, counters, OffsetSpec.latest()));
    Map<TopicPartition, Long> next = new HashMap<>();
    ends.forEach((partition, end) -> next.put(partition, end.offset()));
    Map<TopicPartition, Long> newest = arrivals.ask(admin, next, at);
    List<Enrolment.Probe> probes = new ArrayList<>();
    flows.forEach(
        (topic, partitions) -> {
          String counted = counters(topic);
          int ofCounters = counters.getOrDefault(counted, 0);
          probes.add(
              new Enrolment.Probe(
                  topic.substring(TopicKind.FLOWS.prefix().length()),
                  numbers(topic, partitions, begins, ListOffsetsResultInfo::offset),
                  numbers(topic, partitions, ends, ListOffsetsResultInfo::offset),
                  numbers(topic, partitions, newest, Long::longValue),
                  numbers(counted, ofCounters, ends, ListOffsetsResultInfo::offset),
                  numbers(counted, ofCounters, newest, Long::longValue)));
        });
    return new Enrolment(at, probes);
  }

  /** The topic of counters that belongs to a topic of flows. */
  private static String counters(String flows) {
    return TopicKind.COUNTERS.prefix() + flows.substring(TopicKind.FLOWS.prefix().length());
  }

  private static <T> long[] numbers(
      String topic, int partitions, Map<TopicPartition, T> known, ToLongFunction<T> number) {
    return IntStream.range(0, partitions)
        .mapToLong(i -> number.applyAsLong(known.get(new TopicPartition(topic, i))))
        .toArray();
  }

  private static Map<TopicPartition, ListOffsetsResultInfo> offsets(
      Admin admin, Map<String, Integer> topics, OffsetSpec spec) throws Exception {
    Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
    topics.forEach(
        (topic, partitions) -> {
          for (int i = 0; i < partitions; i++) {
            asked.put(new TopicPartition(topic, i), spec);
          }
        });
    return new HashMap<>(admin.listOffsets(asked).all().get(TIMEOUT_MS, TimeUnit.MILLISECONDS));
  }
}
