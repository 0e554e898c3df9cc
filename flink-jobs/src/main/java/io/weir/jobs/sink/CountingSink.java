package io.weir.jobs.sink;

import io.weir.jobs.metrics.Metric;
import java.util.List;
import org.apache.flink.metrics.Counter;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** Counts rows and discards them, to measure the jobs without a store. */
public final class CountingSink extends AbstractStreamOperator<Void>
    implements OneInputStreamOperator<NativeBlock, Void> {
  private static final long serialVersionUID = 1;

  private static final Metric ROWS =
      Metric.counter("counted_rows", "store-<table>", "Rows counted instead of being stored");
  public static final List<Metric> METRICS = List.of(ROWS);

  private transient Counter rows;

  @Override
  public void open() throws Exception {
    super.open();
    rows = ROWS.register(getMetricGroup());
  }

  @Override
  public void processElement(StreamRecord<NativeBlock> element) {
    rows.inc(element.getValue().rows());
  }
}
