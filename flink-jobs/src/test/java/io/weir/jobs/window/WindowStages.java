package io.weir.jobs.window;

import io.weir.jobs.Stage;
import io.weir.jobs.message.Accepted;
import io.weir.jobs.message.Enrolment;
import io.weir.jobs.table.TableRow;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
import org.apache.flink.streaming.api.operators.StreamFlatMap;

/** The operators of one window job, in sequence. */
public final class WindowStages {
  public static final Duration WINDOW = Duration.ofSeconds(30);
  private static final Duration DELAY = Duration.ofSeconds(15);
  private static final Duration ANSWER = Duration.ofSeconds(10);

  private final Stage<Accepted, WindowMessage> scatter =
      Stage.of(() -> new Scatter(WINDOW), WindowMessage.TYPE);
  private final Stage<Enrolment, WindowMessage> enrolled =
      Stage.of(() -> new StreamFlatMap<>(new Windows.Enrolled()), WindowMessage.TYPE);
  private final Stage<WindowMessage, Digest> buckets;
  private final Stage<Digest, TableRow> merge;

  public WindowStages(WindowJob job, int maxEntries) throws Exception {
    buckets =
        Stage.keyed(
            () ->
                new KeyedProcessOperator<>(
                    new WindowFunction(
                        WINDOW, DELAY, ANSWER, maxEntries, List.of(job.digester()), job.window())),
            WindowMessage::bucket,
            Types.INT,
            Digest.TYPE);
    int sums = job.digester().sums();
    merge =
        sums == 0
            ? Stage.keyed(
                () -> new KeyedProcessOperator<>(new MergeFunction(WINDOW, job.maker())),
                MergeFunction::key,
                Types.STRING,
                TableRow.TYPE)
            : Stage.keyed(
                () -> new KeyedProcessOperator<>(sum(job)),
                sum(job)::key,
                Types.STRING,
                TableRow.TYPE);
  }

  private static SumFunction sum(WindowJob job) {
    return new SumFunction(WINDOW, job.window(), DELAY, job.digester().sums(), job.maker());
  }

  public List<TableRow> time(long ms) throws Exception {
    scatter.time(ms);
    List<TableRow> rows = new ArrayList<>(merge.giveAll(buckets.time(ms)));
    rows.addAll(merge.time(ms));
    return rows;
  }

  public List<TableRow> enrolment(Enrolment enrolment) throws Exception {
    return parts(enrolled.give(enrolment));
  }

  public List<TableRow> message(Accepted message) throws Exception {
    return parts(scatter.give(message));
  }

  public List<TableRow> barrier() throws Exception {
    return parts(scatter.barrier());
  }

  public List<Stage<?, ?>> all() {
    return List.of(scatter, enrolled, buckets, merge);
  }

  /** Number of states of windows and of their rows, which must be 0 if no window is kept. */
  public int windowsKept() {
    // Each bucket keeps which windows are over.
    int over = buckets.stateEntries() == 0 ? 0 : Buckets.COUNT;
    return buckets.stateEntries() - over + merge.stateEntries();
  }

  private List<TableRow> parts(List<WindowMessage> messages) throws Exception {
    List<TableRow> rows = new ArrayList<>();
    for (WindowMessage message : messages) {
      rows.addAll(merge.giveAll(buckets.give(message)));
    }
    return rows;
  }
}
