package io.weir.jobs;

import io.weir.jobs.alerts.AlertMessage;
import io.weir.jobs.enrich.DeclaredLookups;
import io.weir.jobs.enrich.Enrich;
import io.weir.jobs.health.HealthStages;
import io.weir.jobs.ledger.LedgerStages;
import io.weir.jobs.message.Accepted;
import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.LedgerEvent;
import io.weir.jobs.message.RawMessage;
import io.weir.jobs.source.Accept;
import io.weir.jobs.table.TableRow;
import io.weir.jobs.window.ProgressLoad;
import io.weir.proto.FlowMessage;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.operators.ProcessOperator;
import org.junit.jupiter.api.Test;

/**
 * The cost of bookkeeping at 1,000 probes of 4 workers: CPU seconds of each operator in 30 s of
 * live reading, and the state of a probe, idle and with traffic. {@code make bench-bookkeeping}.
 * The operators run in Flink's test harness, in one thread; their output is discarded.
 */
public final class BookkeepingBench {
  private static final int PROBES = Integer.getInteger("weir.probes", 1_000);
  private static final int WORKERS = 4;

  /** Number of probes for operators that keep each probe separately; the result is scaled up. */
  private static final int DRAWN = Math.min(PROBES, 40);

  private static final int INTERVAL_MS = 10_000;
  private static final int POLL_MS = 5_000;
  private static final int ROUND_MS = 30_000;
  private static final long BASE_MS = 1_767_225_600_000L;

  /** Rounds before the measured one: the number of windows that are kept for late data. */
  private static final int ROUNDS = 13;

  /** Intervals before the measured ones: more than the ledger keeps in detail. */
  private static final int INTERVALS = 540;

  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

  /** CPU seconds in 30 s, by purpose. */
  private final Map<String, Double> cpu = new TreeMap<>();

  /** Octets of state of one probe, by operator. */
  private final Map<String, Long> state = new TreeMap<>();

  private double factor = 1;
  private boolean measures;

  private interface Work {
    void run() throws Exception;
  }

  @Test
  void measure() throws Exception {
    main();
  }

  public static void main(String... a) throws Exception {
    BookkeepingBench bench = new BookkeepingBench();
    bench.progress();
    bench.byProbe("idle probe", 0);
    bench.byProbe("probe with traffic", 5);
    bench.report();
  }

  private void timed(String what, Work work) throws Exception {
    long before = THREADS.getCurrentThreadCpuTime();
    work.run();
    long took = THREADS.getCurrentThreadCpuTime() - before;
    if (measures) {
      cpu.merge(what, took * 1e-9 * factor, Double::sum);
    }
  }

  private static String probe(int number) {
    return "site-%04d".formatted(number);
  }

  /** Agents of this many probes, one for each worker. */
  private static List<Agent> agents(int probes) {
    List<Agent> agents = new ArrayList<>();
    for (int number = 0; number < probes * WORKERS; number++) {
      String name = probe(number / WORKERS);
      agents.add(new Agent(name, number % WORKERS, WORKERS, BASE_MS * 1000, INTERVAL_MS));
    }
    return agents;
  }

  private static Enrolment enrolment(int probes, long now, long offset) {
    List<Enrolment.Probe> all = new ArrayList<>();
    for (int number = 0; number < probes; number++) {
      long[] end = new long[WORKERS];
      Arrays.fill(end, offset);
      all.add(new Enrolment.Probe(probe(number), new long[WORKERS], end));
    }
    return new Enrolment(now, all);
  }

  /** Windows with a flow of each worker and interval; closing records come over ten seconds. */
  private void progress() throws Exception {
    List<Agent> agents = agents(PROBES);
    DeclaredLookups known = new DeclaredLookups();
    try (ProgressLoad load = new ProgressLoad(1_000_000);
        Stage<Accepted, Accepted> enrich =
            Stage.of(() -> new ProcessOperator<>(new Enrich(known.factory())), Accepted.TYPE)) {
      load.time(BASE_MS);
      load.enrolled(IntStream.range(0, PROBES).mapToObj(BookkeepingBench::probe).toList());
      for (int second = 1; second <= (ROUNDS + 1) * ROUND_MS / 1000; second++) {
        long now = BASE_MS + second * 1000L;
        measures = second > ROUNDS * ROUND_MS / 1000;
        boolean ends = second % 30 <= 11;
        timed(
            ends ? "progress: ticks while a window ends, with digests" : "progress: other ticks",
            () -> load.time(now));
        long start = BASE_MS + ((second - 1) / 10 - 1) * (long) INTERVAL_MS;
        for (int number = (second - 1) % 10; number < agents.size(); number += 10) {
          if (start >= BASE_MS) {
            for (FlowMessage message : agents.get(number).interval(start, 1, 1, false)) {
              load.message(enrich.give(new Accepted(message, null, null, 0, now)).get(0));
            }
          }
        }
        load.barrier();
        timed("windows: flows taken in", () -> load.flush(false));
        timed("progress: closing records", () -> load.flush(true));
      }
      for (Stage<?, ?> stage : load.stages()) {
        state.merge("windows, of a probe with traffic", octets(stage) / PROBES, Long::sum);
      }
    }
  }

  /**
   * Ledger and health, which keep each probe separately: some probes, for a long time, with this
   * many records in an interval.
   */
  private void byProbe(String kind, int records) throws Exception {
    List<Agent> agents = agents(DRAWN);
    try (Stage<RawMessage, Accepted> accept =
            Stage.of(() -> new ProcessOperator<>(new Accept()), Accepted.TYPE);
        Stage<LedgerEvent, TableRow> ledger =
            Stage.keyed(LedgerStages::operator, LedgerEvent::probe, Types.STRING, TableRow.TYPE);
        Stage<LedgerEvent, AlertMessage> health =
            Stage.keyed(
                HealthStages::operator, LedgerEvent::probe, Types.STRING, AlertMessage.TYPE)) {
      factor = (double) PROBES / DRAWN;
      for (int interval = 0; interval < INTERVALS + ROUND_MS / INTERVAL_MS; interval++) {
        measures = interval >= INTERVALS;
        long start = BASE_MS + interval * (long) INTERVAL_MS;
        long now = start + INTERVAL_MS + 1_000;
        for (Stage<?, ?> stage : List.of(accept, ledger, health)) {
          stage.time(now);
        }
        List<LedgerEvent> events = new ArrayList<>();
        for (int number = 0; number < agents.size(); number++) {
          for (FlowMessage message : agents.get(number).interval(start, records, 5, false)) {
            String topic = "weir.flows." + message.getProbe();
            byte[] octets = message.toByteArray();
            long offset = message.getSequence();
            accept.give(new RawMessage(topic, message.getWorker(), offset, now, octets));
            events.addAll(accept.aside(Accept.LEDGER));
          }
        }
        timed(kind + ", ledger: closing records", () -> ledger.giveAll(events));
        timed(kind + ", health: closing records", () -> health.giveAll(events));
        for (int polls = 0; polls < INTERVAL_MS / POLL_MS; polls++) {
          Enrolment enrolment =
              enrolment(DRAWN, now + polls * (long) POLL_MS, offset(interval, records));
          List<LedgerEvent> enrolled = LedgerStages.enrolled(enrolment);
          timed(kind + ", ledger: lists of probes", () -> ledger.giveAll(enrolled));
          timed(kind + ", health: lists of probes", () -> health.giveAll(enrolled));
        }
      }
      state.put(kind + ": accept", octets(accept) / DRAWN);
      state.put(kind + ": ledger", octets(ledger) / DRAWN);
      state.put(kind + ": health", octets(health) / DRAWN);
      factor = 1;
    }
  }

  /** Offset after the messages of this interval. */
  private static long offset(int interval, int records) {
    return (interval + 1) * (records == 0 ? 1L : 2L);
  }

  private static long octets(Stage<?, ?> stage) throws Exception {
    return stage.save().octets();
  }

  private void report() throws Exception {
    System.out.printf("%d probes of %d workers: CPU seconds in 30 s%n", PROBES, WORKERS);
    cpu.forEach((what, seconds) -> System.out.printf(Locale.ROOT, "%10.3f  %s%n", seconds, what));
    System.out.println("octets of state of a probe");
    state.forEach((what, octets) -> System.out.printf(Locale.ROOT, "%,10d  %s%n", octets, what));
    String file = System.getProperty("weir.json", "");
    if (!file.isEmpty()) {
      Map<String, Object> all = new TreeMap<>();
      all.put("probes", PROBES);
      all.put("workers", WORKERS);
      all.put("cpu_seconds", cpu);
      all.put("state_octets", state);
      Files.writeString(Path.of(file), new ObjectMapper().writeValueAsString(all) + "\n");
    }
  }
}
