package io.weir.jobs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.weir.jobs.Trace.Event;
import io.weir.jobs.enrich.DeclaredLookups;
import io.weir.jobs.enrich.Enrich;
import io.weir.jobs.filters.CounterRows;
import io.weir.jobs.filters.MeansStages;
import io.weir.jobs.health.HealthAlert;
import io.weir.jobs.health.HealthStages;
import io.weir.jobs.indicators.Indicators;
import io.weir.jobs.ingest.BatchBlocks;
import io.weir.jobs.ledger.LedgerStages;
import io.weir.jobs.message.Accepted;
import io.weir.jobs.message.DeadLetter;
import io.weir.jobs.message.LedgerEvent;
import io.weir.jobs.message.RawMessage;
import io.weir.jobs.mixes.Mixes;
import io.weir.jobs.sink.NativeBlock;
import io.weir.jobs.source.Accept;
import io.weir.jobs.table.TableRow;
import io.weir.jobs.topn.Topn;
import io.weir.jobs.window.WindowJob;
import io.weir.jobs.window.WindowStages;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.operators.ProcessOperator;
import org.apache.flink.streaming.api.operators.StreamFlatMap;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Every job on every trace in its folder of {@code src/test/resources}: what comes out is the
 * golden file of the same name, and the same comes out where every operator is stopped and started
 * again from its state in mid-stream.
 */
class JobTraceTest {
  private static final Path RESOURCES = Path.of("src/test/resources");

  /** A job: takes events, gives lines. */
  abstract static class Job implements AutoCloseable {
    private final List<Restartable> stages = new ArrayList<>();
    final Stage<RawMessage, Accepted> accept =
        stage(Stage.of(() -> new ProcessOperator<>(new Accept()), Accepted.TYPE));

    Job() throws Exception {}

    /** A stage of the job, which is restarted and closed with it. */
    final <S extends Restartable> S stage(S stage) {
      stages.add(stage);
      return stage;
    }

    abstract void event(Event event, List<String> out) throws Exception;

    void restart(List<String> out) throws Exception {
      for (Restartable stage : stages) {
        stage.restart();
      }
    }

    void end(List<String> out) throws Exception {}

    @Override
    public void close() throws Exception {
      for (Restartable stage : stages) {
        stage.close();
      }
    }
  }

  /** The jobs by the folders of their traces. */
  private static final Map<String, Factory> JOBS =
      Map.of(
          "ingest",
          Ingest::new,
          "topn",
          () -> new Windowed(Topn.windowJob(WindowStages.WINDOW, 3)),
          "indicators",
          () -> new Windowed(Indicators.windowJob(WindowStages.WINDOW, 3, 4)),
          "mixes",
          () -> new Windowed(Mixes.windowJob(Duration.ofMinutes(1), 2, 1)),
          "filters",
          Filters::new,
          "health",
          Health::new);

  private interface Factory {
    Job make() throws Exception;
  }

  static List<Path> traces() throws IOException {
    try (Stream<Path> files = Files.walk(RESOURCES)) {
      return files.filter(path -> path.toString().endsWith(".trace")).sorted().toList();
    }
  }

  @Test
  void everyJobHasTraces() throws IOException {
    Set<String> folders = new TreeSet<>();
    traces().forEach(trace -> folders.add("" + trace.getParent().getFileName()));
    assertEquals(new TreeSet<>(JOBS.keySet()), folders);
    assertEquals(new TreeSet<>(Jobs.ALL.stream().map(job -> job.name()).toList()), folders);
  }

  @ParameterizedTest
  @MethodSource("traces")
  void theRowsAreThoseOfTheGoldenFile(Path trace) throws Exception {
    List<String> lines = run(Trace.read(trace), factory(trace), new TreeSet<>());
    assertFalse(lines.isEmpty());
    Golden.check(Path.of(trace.toString().replace(".trace", ".golden")), lines);
  }

  @Tag("engine")
  @ParameterizedTest
  @MethodSource("traces")
  void theRowsAreTheSameAfterARestart(Path trace) throws Exception {
    List<Event> events = Trace.read(trace);
    Factory factory = factory(trace);
    String lines = String.join("\n", run(events, factory, new TreeSet<>()));
    TreeSet<Integer> all = new TreeSet<>();
    for (int at = 1; at < events.size(); at++) {
      all.add(at);
      String again = String.join("\n", run(events, factory, new TreeSet<>(List.of(at))));
      assertEquals(lines, again, "with a restart before event " + at);
    }
    assertEquals(
        lines, String.join("\n", run(events, factory, all)), "with a restart before every event");
  }

  private static Factory factory(Path trace) {
    return JOBS.get("" + trace.getParent().getFileName());
  }

  private static List<String> run(List<Event> events, Factory factory, TreeSet<Integer> restarts)
      throws Exception {
    List<String> lines = new ArrayList<>();
    try (Job job = factory.make()) {
      for (int i = 0; i < events.size(); i++) {
        if (restarts.contains(i)) {
          job.restart(lines);
        }
        job.event(events.get(i), lines);
      }
      job.end(lines);
    }
    return lines;
  }

  /** ingest: the rows of flows, the ledger and the dead letters. */
  private static final class Ingest extends Job {
    private final DeclaredLookups known = new DeclaredLookups();
    private final Stage<Accepted, Accepted> enrich =
        stage(Stage.of(() -> new ProcessOperator<>(new Enrich(known.factory())), Accepted.TYPE));
    private final Stage<Accepted, NativeBlock> flows =
        stage(Stage.of(BatchBlocks::new, NativeBlock.TYPE));
    private final Stage<LedgerEvent, TableRow> ledger =
        stage(Stage.keyed(LedgerStages::operator, LedgerEvent::probe, Types.STRING, TableRow.TYPE));

    /** Rows wait for a barrier, so they are put in order at the end. */
    private final List<String> rows = new ArrayList<>();

    Ingest() throws Exception {}

    @Override
    void event(Event event, List<String> out) throws Exception {
      ledger.time(event.at());
      if (event.enrolment() != null) {
        for (LedgerEvent enrolled : LedgerStages.enrolled(event.enrolment())) {
          lines(ledger.give(enrolled), out);
        }
      }
      if (event.message() != null && !known.take(event.message())) {
        for (Accepted message : accept.give(event.message())) {
          for (Accepted enriched : enrich.give(message)) {
            blocks(flows.give(enriched));
          }
        }
        for (LedgerEvent heard : accept.aside(Accept.LEDGER)) {
          lines(ledger.give(heard), out);
        }
        for (DeadLetter letter : accept.aside(Accept.DEAD_LETTERS)) {
          RawMessage message = letter.message();
          String place = message.topic() + "/" + message.partition() + "@" + message.offset();
          out.add("dead letter " + place + " " + letter.cause());
        }
      }
    }

    private static void lines(List<TableRow> rows, List<String> out) throws IOException {
      for (TableRow row : rows) {
        out.add("ledger " + Golden.line(row));
      }
    }

    private void blocks(List<NativeBlock> blocks) {
      for (NativeBlock block : blocks) {
        String table = block.table().sqlName();
        Golden.lines(block).forEach(line -> rows.add(table + " " + line));
      }
    }

    @Override
    void restart(List<String> out) throws Exception {
      blocks(flows.barrier());
      super.restart(out);
    }

    @Override
    void end(List<String> out) throws Exception {
      blocks(flows.barrier());
      out.addAll(rows);
    }
  }

  /** topn, indicators, mixes: the rows of all their tables. */
  private static final class Windowed extends Job {
    private final DeclaredLookups known = new DeclaredLookups();
    private final Stage<Accepted, Accepted> enrich =
        stage(Stage.of(() -> new ProcessOperator<>(new Enrich(known.factory())), Accepted.TYPE));
    private final WindowStages stages;

    Windowed(WindowJob job) throws Exception {
      stages = stage(new WindowStages(job));
    }

    @Override
    void event(Event event, List<String> out) throws Exception {
      lines(stages.time(event.at()), out);
      if (event.enrolment() != null) {
        lines(stages.enrolment(event.enrolment()), out);
      }
      if (event.message() != null && !known.take(event.message())) {
        for (Accepted message : accept.give(event.message())) {
          for (Accepted enriched : enrich.give(message)) {
            lines(stages.message(enriched), out);
          }
        }
        // In the job a barrier does it at least every few seconds; here at once, so that when does
        // not matter.
        lines(stages.barrier(), out);
      }
    }

    private static void lines(List<TableRow> rows, List<String> out) throws IOException {
      for (TableRow row : rows) {
        out.add(row.table().sqlName() + " " + Golden.line(row));
      }
    }

    @Override
    void restart(List<String> out) throws Exception {
      lines(stages.barrier(), out);
      super.restart(out);
    }
  }

  /** filters: the rows of counters and of their means. */
  private static final class Filters extends Job {
    private final Stage<Accepted, TableRow> rows =
        stage(Stage.of(() -> new StreamFlatMap<>(new CounterRows()), TableRow.TYPE));
    private final MeansStages means = stage(new MeansStages());

    Filters() throws Exception {}

    @Override
    void event(Event event, List<String> out) throws Exception {
      lines("means ", means.time(event.at()), out);
      if (event.enrolment() != null) {
        lines("means ", means.enrolment(event.enrolment()), out);
      }
      if (event.message() == null) {
        return;
      }
      for (Accepted message : accept.give(event.message())) {
        lines("counters ", rows.give(message), out);
        lines("means ", means.message(message), out);
      }
      for (DeadLetter letter : accept.aside(Accept.DEAD_LETTERS)) {
        out.add("dead letter " + letter.message().topic() + " " + letter.cause());
      }
    }

    private static void lines(String table, List<TableRow> rows, List<String> out)
        throws IOException {
      for (TableRow row : rows) {
        out.add(table + Golden.line(row));
      }
    }
  }

  /** health: the rows of alerts. */
  private static final class Health extends Job {
    private final Stage<LedgerEvent, HealthAlert> health =
        stage(
            Stage.keyed(
                HealthStages::operator, LedgerEvent::probe, Types.STRING, HealthAlert.TYPE));

    Health() throws Exception {}

    @Override
    void event(Event event, List<String> out) throws Exception {
      lines(health.time(event.at()), out);
      if (event.enrolment() != null) {
        for (LedgerEvent enrolled : LedgerStages.enrolled(event.enrolment())) {
          lines(health.give(enrolled), out);
        }
      }
      if (event.message() != null) {
        accept.give(event.message());
        for (LedgerEvent heard : accept.aside(Accept.LEDGER)) {
          lines(health.give(heard), out);
        }
      }
    }

    private static void lines(List<HealthAlert> alerts, List<String> out) throws IOException {
      for (HealthAlert alert : alerts) {
        out.add(Golden.line(alert.row()));
      }
    }
  }
}
