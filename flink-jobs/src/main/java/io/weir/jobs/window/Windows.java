package io.weir.jobs.window;

import static io.weir.jobs.operator.Named.named;

import io.weir.jobs.message.Accepted;
import io.weir.jobs.message.Enrolment;
import io.weir.jobs.metrics.Metric;
import io.weir.jobs.table.TableRow;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.util.Collector;

/**
 * The part that all window jobs share: it sends records to the buckets of their addresses, keeps
 * them until the window is complete, and digests them there for each job; the digests become rows.
 */
public final class Windows {
  /** The metrics of the operators that windows share. */
  public static final List<Metric> METRICS = WindowFunction.METRICS;

  private Windows() {}

  /**
   * Turns messages and the list of probes into rows.
   *
   * @param window of the buckets
   * @param delay after the end of a window until the rows over all probes are written with the data
   *     received
   * @param answer how long an answer to a SYN may take
   * @param maxEntries maximum number of flows kept individually, each counted for both of its ends
   */
  public static DataStream<TableRow> rows(
      DataStream<Accepted> messages,
      DataStream<Enrolment> enrolments,
      Duration window,
      Duration delay,
      Duration answer,
      int maxEntries,
      List<WindowJob> jobs) {
    DataStream<WindowMessage> parts =
        messages
            .transform("window-scatter", WindowMessage.TYPE, new Scatter(window))
            .uid("window-scatter");
    DataStream<WindowMessage> enrolled =
        named("window-enrolled", WindowMessage.TYPE, enrolments.flatMap(new Enrolled()));
    List<Digester> digesters = new ArrayList<>();
    Duration span = window;
    for (WindowJob job : jobs) {
      digesters.add(job.digester());
      span = job.digester().sums() > 0 ? job.window() : span;
    }
    WindowFunction function =
        new WindowFunction(window, delay, answer, maxEntries, digesters, span);
    SingleOutputStreamOperator<Digest> digests =
        named(
                "window-buckets",
                Digest.TYPE,
                parts.union(enrolled).keyBy(WindowMessage::bucket, Types.INT).process(function))
            .setMaxParallelism(Buckets.MAX_PARALLELISM);
    DataStream<TableRow> rows = null;
    for (int i = 0; i < jobs.size(); i++) {
      DataStream<TableRow> more = merged(digests, i, jobs.get(i), window, delay);
      rows = rows == null ? more : rows.union(more);
    }
    return rows;
  }

  private static DataStream<TableRow> merged(
      DataStream<Digest> digests, int number, WindowJob job, Duration window, Duration delay) {
    String name = job.name();
    DataStream<Digest> own =
        digests
            .filter(digest -> digest.job() == number)
            .name(name + "-digests")
            .uid(name + "-digests");
    int sums = job.digester().sums();
    if (sums == 0) {
      MergeFunction function = new MergeFunction(window, job.maker());
      return named(
          name, TableRow.TYPE, own.keyBy(MergeFunction::key, Types.STRING).process(function));
    }
    SumFunction function = new SumFunction(window, job.window(), delay, sums, job.maker());
    return named(name, TableRow.TYPE, own.keyBy(function::key, Types.STRING).process(function));
  }

  /** Sends the list of probes to every subtask of the buckets. */
  static final class Enrolled extends RichFlatMapFunction<Enrolment, WindowMessage> {
    private static final long serialVersionUID = 1;

    private transient int[] buckets;

    @Override
    public void open(OpenContext context) {
      buckets = Buckets.oneOfEach(getRuntimeContext());
    }

    @Override
    public void flatMap(Enrolment enrolment, Collector<WindowMessage> out) {
      String names = enrolment.names();
      long[] ends = enrolment.ends(false);
      long[] data = new long[1 + ends.length];
      data[0] = enrolment.at();
      System.arraycopy(ends, 0, data, 1, ends.length);
      for (int bucket : buckets) {
        out.collect(WindowMessage.enrolled(bucket, names, data));
      }
    }
  }
}
