package io.weir.jobs.enrich;

import io.weir.jobs.enrich.AddressFile.Kind;
import io.weir.jobs.enrich.Declarations.Cause;
import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.UnaryOperator;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.MetricGroup;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What all subtasks of a process enrich records with, read once for all of them and kept up to date
 * by two threads: one follows the topics {@code weir.prefixes} and {@code weir.probes}, one watches
 * the files of autonomous systems and countries. Readers see a finished {@link Known} or the next,
 * and never wait.
 */
public final class Reference {
  private static final Logger LOG = LoggerFactory.getLogger(Reference.class);

  /** How long a start waits for the topics and the files. */
  private static final Duration PATIENCE = Duration.ofSeconds(30);

  /** Changes within this time become one new table. */
  private static final long COALESCE_MS = 300;

  private static final long POLL_MS = 500;
  private static final long RETRY_MS = 1_000;
  private static final long TOPICS_EVERY_MS = 5_000;
  private static final long FILES_EVERY_MS = 2_000;
  private static final long LOG_EVERY_MS = 60_000;

  /**
   * What is read.
   *
   * @param brokers Kafka's
   * @param systems path of the file of autonomous systems, empty for none
   * @param countries path of the file of countries, empty for none
   */
  public record Sources(String brokers, String systems, String countries) implements Serializable {}

  private static final Map<Sources, Reference> OPEN = new HashMap<>();

  private final Sources sources;
  private final CountDownLatch topicsRead = new CountDownLatch(1);
  private final CountDownLatch filesRead = new CountDownLatch(1);
  private final Thread topics;
  private final Thread files;
  private final Map<Cause, LongAdder> refused = new EnumMap<>(Cause.class);
  private final LongAdder brokenFiles = new LongAdder();
  private final Map<String, Long> logged = new HashMap<>();
  private int users;
  private volatile boolean closed;
  private volatile Known known = Known.NOTHING;

  private Reference(Sources sources) {
    this.sources = sources;
    for (Cause cause : Cause.values()) {
      refused.put(cause, new LongAdder());
    }
    topics = start(this::followTopics, "enrichment-topics");
    files = start(this::watchFiles, "enrichment-files");
  }

  private static Thread start(Runnable work, String name) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    thread.setContextClassLoader(Reference.class.getClassLoader());
    return thread;
  }

  /** Look-ups of one subtask; the process's first starts the threads, its last stops them. */
  public static Lookups open(Sources sources) throws InterruptedException {
    Reference reference;
    synchronized (OPEN) {
      reference = OPEN.computeIfAbsent(sources, Reference::new);
      if (reference.users++ == 0) {
        reference.topics.start();
        reference.files.start();
      }
    }
    Shared lookups = reference.new Shared();
    try {
      long until = System.nanoTime() + PATIENCE.toNanos();
      if (!reference.topicsRead.await(PATIENCE.toNanos(), TimeUnit.NANOSECONDS)
          || !reference.filesRead.await(until - System.nanoTime(), TimeUnit.NANOSECONDS)) {
        LOG.warn(
            "records pass without all that is known of their addresses: {} and {}, or the address files, "
                + "were not read within {} s; they are tried on",
            Declarations.PREFIXES,
            Declarations.PROBES,
            PATIENCE.toSeconds());
      }
      return lookups;
    } catch (InterruptedException e) {
      lookups.close();
      throw e;
    }
  }

  private void release() {
    synchronized (OPEN) {
      if (--users > 0) {
        return;
      }
      OPEN.remove(sources);
    }
    closed = true;
    topics.interrupt();
    files.interrupt();
  }

  /** One subtask's share. */
  private final class Shared implements Lookups {
    private boolean open = true;

    @Override
    public Known now() {
      return known;
    }

    @Override
    public void register(MetricGroup metrics) {
      metrics.gauge("prefixes", (Gauge<Integer>) () -> known.prefixes().size());
      metrics.gauge("as_ranges", (Gauge<Integer>) () -> known.systems().ranges());
      metrics.gauge("country_ranges", (Gauge<Integer>) () -> known.countries().ranges());
      metrics.gauge("broken_address_files", (Gauge<Long>) brokenFiles::sum);
      refused.forEach(
          (cause, count) ->
              metrics
                  .addGroup("cause", cause.word())
                  .gauge("refused_declarations", (Gauge<Long>) count::sum));
    }

    @Override
    public void close() {
      if (open) {
        open = false;
        release();
      }
    }
  }

  private synchronized void set(UnaryOperator<Known> change) {
    known = change.apply(known);
  }

  /** Once a minute for each cause. */
  private synchronized void warn(String cause, String format, Object... arguments) {
    long now = System.currentTimeMillis();
    if (now - logged.getOrDefault(cause, 0L) >= LOG_EVERY_MS) {
      logged.put(cause, now);
      LOG.warn(format, arguments);
    }
  }

  // ---- topics ----

  /**
   * Reads the topics from their beginning, then what is new. After a failure, and when a topic
   * comes or goes, all of it again; until it is whole, what was known before holds.
   */
  private void followTopics() {
    while (!closed) {
      try (KafkaConsumer<byte[], byte[]> consumer =
          new KafkaConsumer<>(
              properties(sources.brokers),
              new ByteArrayDeserializer(),
              new ByteArrayDeserializer())) {
        follow(consumer);
      } catch (WakeupException | org.apache.kafka.common.errors.InterruptException e) {
        return;
      } catch (RuntimeException e) {
        warn("kafka", "prefixes and probes cannot be read, tried again: {}", e.toString());
        sleep(RETRY_MS);
      }
    }
  }

  private static Properties properties(String brokers) {
    Properties properties = new Properties();
    properties.setProperty("bootstrap.servers", brokers);
    properties.setProperty("client.id", "weir-enrichment");
    properties.setProperty("allow.auto.create.topics", "false");
    properties.setProperty("enable.auto.commit", "false");
    // A topic that was removed and made anew is read anew.
    properties.setProperty("auto.offset.reset", "none");
    properties.setProperty("max.poll.records", "10000");
    properties.setProperty("default.api.timeout.ms", "10000");
    return properties;
  }

  private void follow(KafkaConsumer<byte[], byte[]> consumer) {
    List<TopicPartition> places = places(consumer);
    consumer.assign(places);
    consumer.seekToBeginning(places);
    Map<TopicPartition, Long> ends = consumer.endOffsets(places);
    Declarations declarations = new Declarations();
    boolean whole = false;
    boolean changed = true;
    long changedAt = 0;
    long lookAgain = System.currentTimeMillis() + TOPICS_EVERY_MS;
    while (!closed) {
      if (places.isEmpty()) {
        sleep(POLL_MS);
      } else {
        Duration wait = Duration.ofMillis(whole && changed ? COALESCE_MS / 3 : POLL_MS);
        for (ConsumerRecord<byte[], byte[]> message : consumer.poll(wait)) {
          apply(declarations, message);
          changedAt = changed ? changedAt : System.currentTimeMillis();
          changed = true;
        }
      }
      whole = whole || places.stream().allMatch(p -> consumer.position(p) >= ends.get(p));
      long now = System.currentTimeMillis();
      if (whole && changed && now - changedAt >= COALESCE_MS) {
        Prefixes prefixes = declarations.prefixes();
        Map<String, Known.Probe> probes = declarations.probes();
        set(before -> before.with(prefixes, probes));
        if (topicsRead.getCount() > 0) {
          topicsRead.countDown();
          LOG.info("{} prefixes and {} probes are declared", prefixes.size(), probes.size());
        }
        changed = false;
      }
      if (now >= lookAgain) {
        if (!places(consumer).equals(places)) {
          return;
        }
        lookAgain = now + TOPICS_EVERY_MS;
      }
    }
  }

  private static List<TopicPartition> places(KafkaConsumer<byte[], byte[]> consumer) {
    List<TopicPartition> places = new ArrayList<>();
    for (String topic : List.of(Declarations.PREFIXES, Declarations.PROBES)) {
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
      refused.get(e.reason).increment();
      warn(
          e.reason.word(),
          "left out {} offset {} ({}): {} (further ones for this cause are counted only, for a minute)",
          message.topic(),
          message.offset(),
          key,
          e.reason.word());
    }
  }

  // ---- files ----

  private void watchFiles() {
    Watched systems = new Watched(sources.systems, Kind.SYSTEMS);
    Watched countries = new Watched(sources.countries, Kind.COUNTRIES);
    while (!closed) {
      systems.look();
      countries.look();
      filesRead.countDown();
      sleep(FILES_EVERY_MS);
    }
  }

  /**
   * One file. A new one is taken when it has not changed since the last look, so not half-written.
   */
  private final class Watched {
    private final Path path;
    private final Kind kind;
    private String seen = "";
    private String taken = "";

    Watched(String path, Kind kind) {
      this.path = path.isEmpty() ? null : Path.of(path);
      this.kind = kind;
    }

    void look() {
      if (path == null) {
        return;
      }
      String state = state();
      boolean first = seen.isEmpty();
      boolean steady = state.equals(seen) || first;
      seen = state;
      if (!steady || state.equals(taken)) {
        return;
      }
      taken = state;
      try {
        AddressFile.Content content = AddressFile.read(path, kind);
        set(
            before ->
                kind == Kind.SYSTEMS
                    ? before.withSystems(content.map(), content.names())
                    : before.withCountries(content.map()));
        LOG.info("read {}: {} ranges of addresses", path, content.map().ranges());
      } catch (IOException e) {
        brokenFiles.increment();
        LOG.warn(
            "{} is not taken, {}; {}",
            path,
            e.getMessage(),
            first ? "nothing is known from it" : "what was read before holds");
      }
    }

    private String state() {
      try {
        BasicFileAttributes now = Files.readAttributes(path, BasicFileAttributes.class);
        return now.fileKey() + " " + now.size() + " " + now.lastModifiedTime();
      } catch (IOException e) {
        return "gone";
      }
    }
  }

  private void sleep(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException e) {
      closed = true;
      Thread.currentThread().interrupt();
    }
  }
}
