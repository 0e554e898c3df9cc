package io.weir.jobs.filters;

import io.weir.jobs.message.KnownRun;
import io.weir.jobs.serde.Fields;
import io.weir.jobs.serde.Form;
import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** The newest interval for which each worker of one probe has sent counters. */
final class Heard {
  /**
   * A worker this far behind the newest one is no longer expected, because the agent now runs fewer
   * workers.
   */
  static final long ACTIVE_MS = 300_000;

  private static final String RUN = "run";

  /** The newest run of each worker. */
  private final Map<Integer, KnownRun> workers = new TreeMap<>();

  /** Length of the probe's intervals, ms. */
  int length;

  /** End of the newest interval. */
  long newest() {
    return workers.values().stream().mapToLong(KnownRun::until).max().orElse(0);
  }

  /**
   * Notes that a worker's counters of an interval came to the broker; ignores those of an older
   * run.
   */
  void mark(int worker, long epoch, long end, int intervalMs, long came) {
    length = intervalMs;
    workers.computeIfAbsent(worker, key -> new KnownRun()).note(epoch, end, came, false);
  }

  /** Number of workers whose counters are expected. */
  int active() {
    long from = newest() - ACTIVE_MS;
    return (int) workers.values().stream().filter(worker -> worker.until() > from).count();
  }

  /** Whether every expected worker has sent counters up to {@code end}. */
  boolean complete(long end) {
    long from = newest() - ACTIVE_MS;
    return workers.values().stream()
        .allMatch(worker -> worker.until() >= end || worker.until() <= from);
  }

  private void fields(Fields fields) throws IOException {
    length = fields.of("length", length);
  }

  /** The parts of its format. */
  static Form with(Form form) {
    return form.with("heard", new Heard()::fields).with(RUN, new KnownRun()::fields);
  }

  void write(DataOutputView out) throws IOException {
    fields(Fields.to(out));
    out.writeInt(workers.size());
    for (Map.Entry<Integer, KnownRun> entry : workers.entrySet()) {
      out.writeInt(entry.getKey());
      entry.getValue().fields(Fields.to(out));
    }
  }

  static Heard read(DataInputView in, Form.Parts parts) throws IOException {
    Heard heard = new Heard();
    heard.fields(parts.of("heard", in));
    for (int left = in.readInt(); left > 0; left--) {
      int worker = in.readInt();
      KnownRun run = new KnownRun();
      run.fields(parts.of(RUN, in));
      heard.workers.put(worker, run);
    }
    return heard;
  }
}
