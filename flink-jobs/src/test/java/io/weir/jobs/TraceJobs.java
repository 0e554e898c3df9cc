package io.weir.jobs;

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
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.operators.ProcessOperator;
import org.apache.flink.streaming.api.operators.StreamFlatMap;

/**
 * The jobs as traces and schedules run them: their operators one behind the other, rows as lines.
 */
final class TraceJobs {
  private TraceJobs() {}

  /** A job: takes events, gives lines. */
  interface Job extends AutoCloseable {
    void event(Event event, List<String> out) throws Exception;

    void restart(List<String> out) throws Exception;

    void end(List<String> out) throws Exception;

    /** States that are to be released in the end. */
    default int kept() {
      return 0;
    }
  }

  /** The lines that came out, and how many states were left that are to be released. */
  record Outcome(List<String> lines, int kept) {}

  /** The jobs by the folders of their traces. */
  static final Map<String, Factory> BY_FOLDER =
      Map.of(
          "ingest",
          entries -> new Ingest(),
          "topn",
          entries -> new Windowed(Topn.windowJob(WindowStages.WINDOW, 3), entries),
          "indicators",
          entries -> new Windowed(Indicators.windowJob(WindowStages.WINDOW, 3, 4), entries),
          "mixes",
          entries -> new Windowed(Mixes.windowJob(Duration.ofMinutes(1), 2, 1), entries),
          "filters",
          entries -> new Filters(),
          "health",
          entries -> new Health());

  interface Factory {
    /** Makes the job; its windows hold at most so many entries. */
    Job make(int windowEntries) throws Exception;
  }

  /**
   * The lines of all events, with a restart before those of these numbers and where the trace has
   * one.
   */
  static Outcome run(List<String> trace, Factory factory, Set<Integer> restarts) throws Exception {
    List<Event> events = Trace.read("trace", trace);
    List<String> lines = new ArrayList<>();
    try (Job job = factory.make(Trace.windowEntries(trace))) {
      for (int i = 0; i < events.size(); i++) {
        if (restarts.contains(i) || events.get(i).restart()) {
          job.restart(lines);
        }
        job.event(events.get(i), lines);
      }
      job.end(lines);
      return new Outcome(lines, job.kept());
    }
  }

  private static Stage<RawMessage, Accepted> accept() throws Exception {
    return Stage.of(() -> new ProcessOperator<>(new Accept()), Accepted.TYPE);
  }

  /** ingest: the rows of flows, the ledger and the dead letters. */
  private static final class Ingest implements Job {
    private final Stage<RawMessage, Accepted> accept = accept();
    private final DeclaredLookups known = new DeclaredLookups();
    private final Stage<Accepted, Accepted> enrich =
        Stage.of(() -> new ProcessOperator<>(new Enrich(known.factory())), Accepted.TYPE);
    private final Stage<Accepted, NativeBlock> flows = Stage.of(BatchBlocks::new, NativeBlock.TYPE);
    private final Stage<LedgerEvent, TableRow> ledger =
        Stage.keyed(LedgerStages::operator, LedgerEvent::probe, Types.STRING, TableRow.TYPE);

    /** Rows wait for a barrier, so they are put in order at the end. */
    private final List<String> rows = new ArrayList<>();

    Ingest() throws Exception {}

    @Override
    public void event(Event event, List<String> out) throws Exception {
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
    public void restart(List<String> out) throws Exception {
      blocks(flows.barrier());
      accept.restart();
      enrich.restart();
      flows.restart();
      ledger.restart();
    }

    @Override
    public void end(List<String> out) throws Exception {
      blocks(flows.barrier());
      out.addAll(rows);
    }

    @Override
    public void close() throws Exception {
      accept.close();
      enrich.close();
      flows.close();
      ledger.close();
    }
  }

  /** topn, indicators, mixes: the rows of all their tables. */
  private static final class Windowed implements Job {
    private final Stage<RawMessage, Accepted> accept = accept();
    private final DeclaredLookups known = new DeclaredLookups();
    private final Stage<Accepted, Accepted> enrich =
        Stage.of(() -> new ProcessOperator<>(new Enrich(known.factory())), Accepted.TYPE);
    private final WindowStages stages;

    Windowed(WindowJob job, int entries) throws Exception {
      stages = new WindowStages(job, entries);
    }

    @Override
    public void event(Event event, List<String> out) throws Exception {
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
    public void restart(List<String> out) throws Exception {
      lines(stages.barrier(), out);
      accept.restart();
      enrich.restart();
      stages.restart();
    }

    @Override
    public void end(List<String> out) {}

    @Override
    public int kept() {
      return stages.windowsKept();
    }

    @Override
    public void close() throws Exception {
      accept.close();
      enrich.close();
      stages.close();
    }
  }

  /** filters: the rows of counters and of their means. */
  private static final class Filters implements Job {
    private final Stage<RawMessage, Accepted> accept = accept();
    private final Stage<Accepted, TableRow> rows =
        Stage.of(() -> new StreamFlatMap<>(new CounterRows()), TableRow.TYPE);
    private final MeansStages means = new MeansStages();

    Filters() throws Exception {}

    @Override
    public void event(Event event, List<String> out) throws Exception {
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

    @Override
    public void restart(List<String> out) throws Exception {
      accept.restart();
      rows.restart();
      means.restart();
    }

    @Override
    public void end(List<String> out) {}

    @Override
    public void close() throws Exception {
      accept.close();
      rows.close();
      means.close();
    }
  }

  /** health: the rows of alerts. */
  private static final class Health implements Job {
    private final Stage<RawMessage, Accepted> accept = accept();
    private final Stage<LedgerEvent, HealthAlert> health =
        Stage.keyed(HealthStages::operator, LedgerEvent::probe, Types.STRING, HealthAlert.TYPE);

    Health() throws Exception {}

    @Override
    public void event(Event event, List<String> out) throws Exception {
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

    @Override
    public void restart(List<String> out) throws Exception {
      accept.restart();
      health.restart();
    }

    @Override
    public void end(List<String> out) {}

    @Override
    public void close() throws Exception {
      accept.close();
      health.close();
    }
  }
}
