package io.weir.jobs.topn;

import io.weir.jobs.Stage;
import io.weir.jobs.sink.TableRow;
import io.weir.jobs.source.Accepted;
import io.weir.jobs.source.Enrolment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;

/** The operators of topn one behind the other. */
public final class TopnStages implements AutoCloseable {
  private static final Duration WINDOW = Duration.ofSeconds(30);
  private static final Duration DELAY = Duration.ofSeconds(15);
  private static final int TOP = 3;

  private final Stage<Accepted, TopnMessage> combine =
      Stage.of(() -> new Combiner(WINDOW), TopnMessage.TYPE);
  private final Stage<TopnMessage, BucketTop> buckets =
      Stage.keyed(
          () -> new KeyedProcessOperator<>(new BucketFunction(WINDOW, DELAY, TOP)),
          TopnMessage::bucket,
          Types.INT,
          BucketTop.TYPE);
  private final Stage<BucketTop, TableRow> merge =
      Stage.keyed(
          () -> new KeyedProcessOperator<>(new MergeFunction(WINDOW, TOP)),
          MergeFunction::key,
          Types.STRING,
          TableRow.TYPE);

  public TopnStages() throws Exception {}

  public List<TableRow> time(long ms) throws Exception {
    List<TableRow> rows = new ArrayList<>();
    combine.time(ms);
    rows.addAll(lists(buckets.time(ms)));
    rows.addAll(merge.time(ms));
    return rows;
  }

  public List<TableRow> enrolment(Enrolment enrolment) throws Exception {
    long[] data = {enrolment.probes().size()};
    List<TopnMessage> messages = new ArrayList<>();
    for (int bucket : Buckets.IDS) {
      messages.add(new TopnMessage(TopnMessage.Kind.ENROLLED, bucket, "", 0, data));
    }
    return parts(messages);
  }

  public List<TableRow> message(Accepted message) throws Exception {
    return parts(combine.give(message));
  }

  public List<TableRow> barrier() throws Exception {
    return parts(combine.barrier());
  }

  public void restart() throws Exception {
    combine.restart();
    buckets.restart();
    merge.restart();
  }

  private List<TableRow> parts(List<TopnMessage> messages) throws Exception {
    List<TableRow> rows = new ArrayList<>();
    for (TopnMessage message : messages) {
      rows.addAll(lists(buckets.give(message)));
    }
    return rows;
  }

  private List<TableRow> lists(List<BucketTop> lists) throws Exception {
    List<TableRow> rows = new ArrayList<>();
    for (BucketTop list : lists) {
      rows.addAll(merge.give(list));
    }
    return rows;
  }

  @Override
  public void close() throws Exception {
    combine.close();
    buckets.close();
    merge.close();
  }
}
