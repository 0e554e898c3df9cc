package io.weir.jobs.operator;

import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;

/**
 * An operator that gathers what it hands on, and holds no state: it hands on all that it has before
 * each checkpoint's barrier and at the end.
 */
public abstract class FlushingOperator<I, O> extends AbstractStreamOperator<O>
    implements OneInputStreamOperator<I, O> {
  private static final long serialVersionUID = 1;

  /** Hands on all that it has. */
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
