package io.weir.jobs.sink;

import org.apache.flink.metrics.Counter;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** Counts rows and throws them away: for measuring the jobs without a store. */
public final class CountingSink extends AbstractStreamOperator<Void>
    implements OneInputStreamOperator<NativeBlock, Void> {
  private static final long serialVersionUID = 1;

  private transient Counter rows;

  @Override
  public void open() throws Exception {
    super.open();
    rows = getMetricGroup().addGroup("weir").counter("counted_rows");
  }

  @Override
  public void processElement(StreamRecord<NativeBlock> element) {
    rows.inc(element.getValue().rows());
  }
}
