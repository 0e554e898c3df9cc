package io.weir.jobs.filters;

import io.weir.jobs.message.RunOrder;
import io.weir.jobs.serde.Fields;
import io.weir.jobs.serde.Form;
import io.weir.jobs.serde.Longs;
import java.io.IOException;
import java.util.Arrays;
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

  /**
   * By worker: the newest run, the end of the newest interval of that run, ms, and when that run
   * was heard ({@link RunOrder#note}).
   */
  private final Map<Integer, long[]> workers = new TreeMap<>();

  /** Length of the probe's intervals, ms. */
  int length;

  /** End of the newest interval. */
  long newest() {
    return workers.values().stream().mapToLong(worker -> worker[RunOrder.UNTIL]).max().orElse(0);
  }

  /**
   * Notes that a worker's counters of an interval came to the broker; ignores those of an older
   * run.
   */
  void mark(int worker, long epoch, long end, int intervalMs, long came) {
    length = intervalMs;
    long[] known = workers.computeIfAbsent(worker, key -> new long[RunOrder.NUMBERS]);
    RunOrder.note(known, epoch, end, came, false);
  }

  /** Number of workers whose counters are expected. */
  int active() {
    long from = newest() - ACTIVE_MS;
    return (int) workers.values().stream().filter(worker -> worker[RunOrder.UNTIL] > from).count();
  }

  /** Whether every expected worker has sent counters up to {@code end}. */
  boolean complete(long end) {
    long from = newest() - ACTIVE_MS;
    return workers.values().stream()
        .allMatch(worker -> worker[RunOrder.UNTIL] >= end || worker[RunOrder.UNTIL] <= from);
  }

  private void fields(Fields fields) throws IOException {
    length = fields.of("length", length);
  }

  /** The parts of its format. */
  static Form with(Form form) {
    return form.with("heard", new Heard()::fields);
  }

  void write(DataOutputView out) throws IOException {
    fields(Fields.to(out));
    out.writeInt(workers.size());
    for (Map.Entry<Integer, long[]> entry : workers.entrySet()) {
      out.writeInt(entry.getKey());
      Longs.write(entry.getValue(), RunOrder.NUMBERS, out);
    }
  }

  static Heard read(DataInputView in, Form.Parts parts) throws IOException {
    Heard heard = new Heard();
    heard.fields(parts.of("heard", in));
    for (int left = in.readInt(); left > 0; left--) {
      heard.workers.put(in.readInt(), Arrays.copyOf(Longs.read(in), RunOrder.NUMBERS));
    }
    return heard;
  }
}
