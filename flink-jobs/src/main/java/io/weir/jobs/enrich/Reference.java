package io.weir.jobs.enrich;

import io.weir.jobs.enrich.AddressFile.Kind;
import io.weir.jobs.kafka.Brokers;
import io.weir.jobs.metrics.Metric;
import java.io.Serializable;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import org.apache.flink.metrics.MetricGroup;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The data with which all subtasks of a process enrich records, read once for all of them and kept
 * up to date by two threads: one follows the declarations in Kafka, the other watches the files of
 * autonomous systems and countries. A reader always sees a complete {@link Known}, old or new, and
 * never waits.
 */
public final class Reference {
  private static final String OPERATOR = "enrich";
  private static final Metric PREFIXES =
      Metric.gauge("prefixes", OPERATOR, "Declared prefixes; of subtask 0's process");
  private static final Metric SYSTEMS =
      Metric.gauge("as_ranges", OPERATOR, "Ranges of addresses of the file of autonomous systems");
  private static final Metric COUNTRIES =
      Metric.gauge("country_ranges", OPERATOR, "Ranges of addresses of the file of countries");
  private static final Metric REFUSED =
      Metric.gauge(
          "enrichment_refused",
          OPERATOR,
          "Declarations and files left out since the start, by `cause` (scope `weir_cause`)");

  /** The metrics that a subtask of {@link Enrich} registers. */
  public static final List<Metric> METRICS = List.of(PREFIXES, SYSTEMS, COUNTRIES, REFUSED);

  private static final Logger LOG = LoggerFactory.getLogger(Reference.class);

  /** How long the start of a subtask waits for the first complete read. */
  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private static final long FILES_EVERY_MS = 2_000;

  /**
   * Paths and addresses of the inputs.
   *
   * @param brokers Kafka's
   * @param systems path of the file of autonomous systems, empty for none
   * @param countries path of the file of countries, empty for none
   */
  public record Sources(Brokers brokers, String systems, String countries)
      implements Serializable {}

  private static final Map<Sources, Reference> OPEN = new HashMap<>();

  private final Sources sources;
  private final Refusals refusals = new Refusals();
  private final DeclaredTopics topics;
  private final CountDownLatch filesRead = new CountDownLatch(1);
  private final List<Thread> threads;
  private int users;
  private volatile Known known = Known.NOTHING;

  private Reference(Sources sources) {
    this.sources = sources;
    topics =
        new DeclaredTopics(
            () -> DeclaredTopics.consumer(sources.brokers),
            (prefixes, probes, rules) -> set(before -> before.with(prefixes, probes, rules)),
            refusals);
    threads = List.of(thread(topics, "enrichment-topics"), thread(this::watch, "enrichment-files"));
  }

  private static Thread thread(Runnable work, String name) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    thread.setContextClassLoader(Reference.class.getClassLoader());
    return thread;
  }

  /**
   * Look-ups of one subtask. The first subtask of a process starts the threads; the last one to
   * close stops them. Returns when the declarations and both files have been read, or after 30 s.
   */
  public static Lookups open(Sources sources) throws InterruptedException {
    Reference reference;
    synchronized (OPEN) {
      reference = OPEN.computeIfAbsent(sources, Reference::new);
      if (reference.users++ == 0) {
        reference.threads.forEach(Thread::start);
      }
    }
    Shared lookups = reference.new Shared();
    try {
      reference.await();
      return lookups;
    } catch (InterruptedException e) {
      lookups.close();
      throw e;
    }
  }

  private void await() throws InterruptedException {
    long until = System.nanoTime() + PATIENCE.toNanos();
    for (CountDownLatch latch : List.of(topics.whole(), filesRead)) {
      if (!latch.await(until - System.nanoTime(), TimeUnit.NANOSECONDS)) {
        LOG.warn(
            "records pass with incomplete enrichment: {} was not read within {} s",
            latch == filesRead ? "a file" : "a topic",
            PATIENCE.toSeconds());
      }
    }
  }

  private void release() {
    synchronized (OPEN) {
      if (--users > 0) {
        return;
      }
      OPEN.remove(sources);
    }
    threads.forEach(Thread::interrupt);
  }

  private synchronized void set(UnaryOperator<Known> change) {
    known = change.apply(known);
  }

  private void watch() {
    List<WatchedFile> files = new ArrayList<>();
    if (!sources.systems.isEmpty()) {
      files.add(
          new WatchedFile(
              Path.of(sources.systems),
              Kind.SYSTEMS,
              content -> set(before -> before.withSystems(content.map(), content.names())),
              refusals));
    }
    if (!sources.countries.isEmpty()) {
      files.add(
          new WatchedFile(
              Path.of(sources.countries),
              Kind.COUNTRIES,
              content -> set(before -> before.withCountries(content.map())),
              refusals));
    }
    while (!Thread.currentThread().isInterrupted()) {
      files.forEach(WatchedFile::look);
      filesRead.countDown();
      try {
        Thread.sleep(FILES_EVERY_MS);
      } catch (InterruptedException e) {
        return;
      }
    }
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
      PREFIXES.register(metrics, () -> known.prefixes().size());
      SYSTEMS.register(metrics, () -> known.systems().ranges());
      COUNTRIES.register(metrics, () -> known.countries().ranges());
      refusals.counts().forEach((cause, count) -> REFUSED.register(metrics, cause, count::sum));
    }

    @Override
    public void close() {
      if (open) {
        open = false;
        release();
      }
    }
  }
}
