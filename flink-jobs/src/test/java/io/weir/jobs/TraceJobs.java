package io.weir.jobs;

import io.weir.jobs.Trace.Event;
import io.weir.jobs.Trace.Stop;
import io.weir.jobs.alerts.AlertMessage;
import io.weir.jobs.alerts.Forward;
import io.weir.jobs.detect.DetectStages;
import io.weir.jobs.enrich.DeclaredLookups;
import io.weir.jobs.enrich.Enrich;
import io.weir.jobs.filters.CounterRows;
import io.weir.jobs.filters.MeansStages;
import io.weir.jobs.health.HealthStages;
import io.weir.jobs.indicators.Indicators;
import io.weir.jobs.ingest.BatchBlocks;
import io.weir.jobs.ledger.LedgerStages;
import io.weir.jobs.message.Accepted;
import io.weir.jobs.message.AgentAlert;
import io.weir.jobs.message.DeadLetter;
import io.weir.jobs.message.LedgerEvent;
import io.weir.jobs.message.RawMessage;
import io.weir.jobs.mixes.Mixes;
import io.weir.jobs.sink.NativeBlock;
import io.weir.jobs.source.Accept;
import io.weir.jobs.source.ClockCheck;
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
import java.util.TreeMap;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
import org.apache.flink.streaming.api.operators.ProcessOperator;
import org.apache.flink.streaming.api.operators.StreamFlatMap;

/** The jobs for traces and schedules: their operators in sequence, and rows as lines. */
final class TraceJobs {
  private TraceJobs() {}

  /** A job: takes events, returns lines. */
  abstract static class Job implements AutoCloseable {
    /** Interval at which the jobs' timers are checked while no message comes. */
    private static final long STEP_MS = 5_000;

    boolean seldomBarriers;
    private long now;

    /** Rows that are sorted at the end. */
    final List<String> rows = new ArrayList<>();

    abstract List<Stage<?, ?>> stages();

    abstract void event(Event event, List<String> out) throws Exception;

    /** The jobs' clock steps to the time of their next event. */
    final void leap() {
      now = 0;
    }

    /** Lets time pass until the event, firing timers as in running jobs, and then applies it. */
    final void happen(Event event, List<String> out) throws Exception {
      for (long at = now + STEP_MS; now != 0 && at < event.at(); at += STEP_MS) {
        event(new Event(at, null, null), out);
      }
      now = event.at();
      event(event, out);
    }

    /** The output that a checkpoint's barrier triggers. */
    void barrier(List<String> out) throws Exception {}

    /** States that must be released in the end. */
    int kept() {
      return 0;
    }

    void restart(List<String> out, int parallelism) throws Exception {
      barrier(out);
      for (Stage<?, ?> stage : stages()) {
        stage.restart(parallelism);
      }
    }

    List<Stage.Saved> save(List<String> out) throws Exception {
      barrier(out);
      List<Stage.Saved> states = new ArrayList<>();
      for (Stage<?, ?> stage : stages()) {
        states.add(stage.save());
      }
      return states;
    }

    void load(List<Stage.Saved> states, long ms, int parallelism) throws Exception {
      now = ms;
      for (int i = 0; i < states.size(); i++) {
        stages().get(i).load(states.get(i), ms, parallelism);
      }
    }

    @Override
    public void close() throws Exception {
      for (Stage<?, ?> stage : stages()) {
        stage.close();
      }
    }
  }

  /** The output lines, and the number of states that were not released but should have been. */
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
          entries -> new Health(),
          "alerts",
          entries -> new Alerts(),
          "detect",
          entries -> new Detect());

  interface Factory {
    /** Creates the job; its windows hold at most this many entries. */
    Job make(int windowEntries) throws Exception;
  }

  /**
   * The output of a trace, with restarts before the events with these numbers and where the trace
   * has one.
   */
  static Outcome run(List<String> trace, Factory factory, Set<Integer> restarts) throws Exception {
    return run(trace, Reading.of(Trace.read("trace", trace)), factory, restarts);
  }

  /**
   * The same for a trace whose events are known already, in the order of {@link Reading}. Output
   * between a checkpoint and a crash is not stored.
   */
  static Outcome run(List<String> trace, List<Event> events, Factory factory, Set<Integer> restarts)
      throws Exception {
    List<String> lines = new ArrayList<>();
    try (Job job = factory.make(Trace.windowEntries(trace))) {
      job.seldomBarriers = Trace.seldomBarriers(trace);
      List<Stage.Saved> state = null;
      int committed = 0;
      int committedRows = 0;
      TreeMap<Long, Long> clock = Trace.jobsClock(trace);
      long ahead = 0;
      ClockCheck check = new ClockCheck();
      for (int i = 0; i < events.size(); i++) {
        Event read = events.get(i);
        long nowAhead = clock.floorEntry(read.at()).getValue();
        if (nowAhead != ahead) {
          ahead = nowAhead;
          job.leap();
        }
        Event event = read.ahead(ahead).doubted(check, read.at());
        if (restarts.contains(i) || (event.stop() == Stop.ORDERLY && event.downMs() == 0)) {
          job.restart(lines, event.parallelism());
        }
        long back = event.at() + event.downMs();
        if (event.stop() == Stop.CHECKPOINT) {
          state = job.save(lines);
          committed = lines.size();
          committedRows = job.rows.size();
        } else if (event.stop() == Stop.CRASH) {
          lines.subList(committed, lines.size()).clear();
          job.rows.subList(committedRows, job.rows.size()).clear();
          job.load(state, back, event.parallelism());
        } else if (event.stop() == Stop.ORDERLY && event.downMs() > 0) {
          job.happen(event, lines);
          job.load(job.save(lines), back, event.parallelism());
        } else {
          job.happen(event, lines);
        }
      }
      job.barrier(lines);
      lines.addAll(job.rows);
      return new Outcome(lines, job.kept());
    }
  }

  /** Whether a prefix or a probe is declared, which some jobs do not read. */
  private static boolean isDeclaration(Event event) {
    return List.of("weir.prefixes", "weir.probes", "weir.rules").contains(event.message().topic());
  }

  private static Stage<RawMessage, Accepted> accept() throws Exception {
    return Stage.of(() -> new ProcessOperator<>(new Accept()), Accepted.TYPE);
  }

  /** ingest: the rows of flows, the ledger and the dead letters. */
  private static final class Ingest extends Job {
    private final Stage<RawMessage, Accepted> accept = accept();
    private final DeclaredLookups known = new DeclaredLookups();
    private final Stage<Accepted, Accepted> enrich =
        Stage.of(() -> new ProcessOperator<>(new Enrich(known.factory())), Accepted.TYPE);
    private final Stage<Accepted, NativeBlock> flows = Stage.of(BatchBlocks::new, NativeBlock.TYPE);
    private final Stage<LedgerEvent, TableRow> ledger =
        Stage.keyed(LedgerStages::operator, LedgerEvent::probe, Types.STRING, TableRow.TYPE);

    Ingest() throws Exception {}

    @Override
    void event(Event event, List<String> out) throws Exception {
      ledger.time(event.at());
      flows.time(event.at());
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
    void barrier(List<String> out) throws Exception {
      blocks(flows.barrier());
    }

    @Override
    List<Stage<?, ?>> stages() {
      return List.of(accept, enrich, flows, ledger);
    }
  }

  /** topn, indicators, mixes: the rows of all their tables. */
  private static final class Windowed extends Job {
    private final Stage<RawMessage, Accepted> accept = accept();
    private final DeclaredLookups known = new DeclaredLookups();
    private final Stage<Accepted, Accepted> enrich =
        Stage.of(() -> new ProcessOperator<>(new Enrich(known.factory())), Accepted.TYPE);
    private final WindowStages stages;

    Windowed(WindowJob job, int entries) throws Exception {
      stages = new WindowStages(job, entries);
    }

    @Override
    void event(Event event, List<String> out) throws Exception {
      lines(stages.time(event.at()), out);
      if (event.enrolment() != null) {
        lines(stages.barrier(), out);
        lines(stages.enrolment(event.enrolment()), out);
      }
      if (event.message() != null && !known.take(event.message())) {
        for (Accepted message : accept.give(event.message())) {
          for (Accepted enriched : enrich.give(message)) {
            lines(stages.message(enriched), out);
          }
        }
        // In a job, barriers flush the output every few seconds; here each event does, so that the
        // time of barriers does not matter, unless the trace says otherwise.
        if (!seldomBarriers) {
          lines(stages.barrier(), out);
        }
      }
    }

    private static void lines(List<TableRow> rows, List<String> out) throws IOException {
      for (TableRow row : rows) {
        out.add(row.table().sqlName() + " " + Golden.line(row));
      }
    }

    @Override
    void barrier(List<String> out) throws Exception {
      lines(stages.barrier(), out);
    }

    @Override
    List<Stage<?, ?>> stages() {
      List<Stage<?, ?>> all = new ArrayList<>(List.of(accept, enrich));
      all.addAll(stages.all());
      return all;
    }

    @Override
    int kept() {
      return stages.windowsKept();
    }
  }

  /** filters: the rows of counters and of their means. */
  private static final class Filters extends Job {
    private final Stage<RawMessage, Accepted> accept = accept();
    private final Stage<Accepted, TableRow> counters =
        Stage.of(() -> new StreamFlatMap<>(new CounterRows()), TableRow.TYPE);
    private final MeansStages means = new MeansStages();

    Filters() throws Exception {}

    @Override
    void event(Event event, List<String> out) throws Exception {
      lines("means ", means.time(event.at()), out);
      if (event.enrolment() != null) {
        lines("means ", means.enrolment(event.enrolment()), out);
      }
      if (event.message() == null || isDeclaration(event)) {
        return;
      }
      for (Accepted message : accept.give(event.message())) {
        lines("counters ", counters.give(message), out);
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
    List<Stage<?, ?>> stages() {
      return List.of(accept, counters, means.all().get(0));
    }
  }

  /** alerts: the rows of forwarded alerts, and refused ones. */
  private static final class Alerts extends Job {
    private final Stage<RawMessage, Accepted> accept = accept();
    private final Stage<AgentAlert, AlertMessage> forward =
        Stage.keyed(
            () -> new KeyedProcessOperator<>(new Forward()),
            AgentAlert::probe,
            Types.STRING,
            AlertMessage.TYPE);

    Alerts() throws Exception {}

    @Override
    void event(Event event, List<String> out) throws Exception {
      for (AlertMessage closed : forward.time(event.at())) {
        out.add(Golden.line(closed.agentRow()));
      }
      if (event.message() == null || isDeclaration(event)) {
        return;
      }
      accept.give(event.message());
      for (AgentAlert alert : accept.aside(Accept.ALERTS)) {
        for (AlertMessage forwarded : forward.give(alert)) {
          out.add(Golden.line(forwarded.agentRow()));
        }
      }
      for (DeadLetter letter : accept.aside(Accept.DEAD_LETTERS)) {
        out.add("dead letter " + letter.message().topic() + " " + letter.cause());
      }
    }

    @Override
    List<Stage<?, ?>> stages() {
      return List.of(accept, forward);
    }
  }

  /** detect: the rows of alerts on hosts, prefixes and customers. */
  private static final class Detect extends Job {
    private final Stage<RawMessage, Accepted> accept = accept();
    private final DeclaredLookups known = new DeclaredLookups();
    private final Stage<Accepted, Accepted> enrich =
        Stage.of(() -> new ProcessOperator<>(new Enrich(known.factory())), Accepted.TYPE);
    private final DetectStages detect = new DetectStages(known.factory());

    Detect() throws Exception {}

    @Override
    void event(Event event, List<String> out) throws Exception {
      lines(detect.time(event.at()), out);
      if (event.message() != null && !known.take(event.message())) {
        for (Accepted message : accept.give(event.message())) {
          for (Accepted enriched : enrich.give(message)) {
            lines(detect.give(enriched), out);
          }
        }
        if (!seldomBarriers) {
          barrier(out);
        }
      }
    }

    private static void lines(List<AlertMessage> alerts, List<String> out) throws IOException {
      for (AlertMessage alert : alerts) {
        out.add(Golden.line(alert.row()));
      }
    }

    @Override
    void barrier(List<String> out) throws Exception {
      lines(detect.barrier(), out);
    }

    @Override
    List<Stage<?, ?>> stages() {
      List<Stage<?, ?>> stages = new ArrayList<>(List.of(accept, enrich));
      stages.addAll(detect.stages());
      return stages;
    }
  }

  /** health: the rows of alerts. */
  private static final class Health extends Job {
    private final Stage<RawMessage, Accepted> accept = accept();
    private final Stage<LedgerEvent, AlertMessage> health =
        Stage.keyed(HealthStages::operator, LedgerEvent::probe, Types.STRING, AlertMessage.TYPE);

    Health() throws Exception {}

    @Override
    void event(Event event, List<String> out) throws Exception {
      lines(health.time(event.at()), out);
      if (event.enrolment() != null) {
        for (LedgerEvent enrolled : LedgerStages.enrolled(event.enrolment())) {
          lines(health.give(enrolled), out);
        }
      }
      if (event.message() != null && !isDeclaration(event)) {
        accept.give(event.message());
        for (LedgerEvent heard : accept.aside(Accept.LEDGER)) {
          lines(health.give(heard), out);
        }
      }
    }

    private static void lines(List<AlertMessage> alerts, List<String> out) throws IOException {
      for (AlertMessage alert : alerts) {
        out.add(Golden.line(alert.row()));
      }
    }

    @Override
    List<Stage<?, ?>> stages() {
      return List.of(accept, health);
    }
  }
}
