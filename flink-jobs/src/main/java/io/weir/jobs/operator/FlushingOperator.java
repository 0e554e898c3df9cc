package io.weir.jobs.operator;

import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;

/**
 * An operator that collects its output and keeps no state: it emits everything collected before
 * each checkpoint's barrier and at the end.
 */
public abstract class FlushingOperator<I, O> extends AbstractStreamOperator<O>
    implements OneInputStreamOperator<I, O> {
  private static final long serialVersionUID = 1;

  /** Emits everything collected. */
  protected abstract void flush();

  @Override
  public final void prepareSnapshotPreBarrier(long checkpointId) {
    flush();
  }

  @Override
  public final void finish() {
    flush();
  }
}
