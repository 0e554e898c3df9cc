package io.weir.jobs.topn;

import io.weir.jobs.sink.TableRow;
import io.weir.jobs.source.Accepted;
import io.weir.jobs.source.Enrolment;
import java.time.Duration;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.util.Collector;

/**
 * The job {@code topn}: the largest flows by octets of every window, per probe and over all probes.
 */
public final class TopFlows {
  private TopFlows() {}

  /** From messages and the list of probes to rows of {@code top_flows}. */
  public static DataStream<TableRow> rows(
      DataStream<Accepted> messages,
      DataStream<Enrolment> enrolments,
      Duration window,
      Duration delay,
      int top) {
    DataStream<TopnMessage> parts =
        messages
            .transform("topn-combine", TopnMessage.TYPE, new Combiner(window))
            .uid("topn-combine");
    DataStream<TopnMessage> enrolled =
        enrolments
            .flatMap(TopFlows::enrolled)
            .returns(TopnMessage.TYPE)
            .name("topn-enrolled")
            .uid("topn-enrolled");
    return parts
        .union(enrolled)
        .keyBy(TopnMessage::bucket, Types.INT)
        .process(new BucketFunction(window, delay, top))
        .returns(BucketTop.TYPE)
        .name("topn-buckets")
        .uid("topn-buckets")
        .setMaxParallelism(Buckets.MAX_PARALLELISM)
        .keyBy(MergeFunction::key, Types.STRING)
        .process(new MergeFunction(window, top))
        .returns(TableRow.TYPE)
        .name("topn-merge")
        .uid("topn-merge");
  }

  private static void enrolled(Enrolment enrolment, Collector<TopnMessage> out) {
    long[] data = {enrolment.probes().size()};
    for (int bucket : Buckets.IDS) {
      out.collect(new TopnMessage(TopnMessage.Kind.ENROLLED, bucket, "", 0, data));
    }
  }
}
