package io.weir.jobs.operator;

import java.io.IOException;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.streaming.api.TimerService;
import org.apache.flink.streaming.api.operators.StreamingRuntimeContext;

/**
 * The timer that a function sets for each key, by the clock. One that was set to an earlier time
 * than before rings at both.
 */
public final class WakeUp {
  private final KeyedValue<Long> timer;
  private long began;

  /** Registers the timer's time in the function's state. */
  public WakeUp(RuntimeContext runtime) {
    timer = new KeyedValue<>(runtime, "timer", LongSerializer.INSTANCE);
    began =
        ((StreamingRuntimeContext) runtime).getProcessingTimeService().getCurrentProcessingTime();
  }

  /**
   * When the function's attempt began, by the clock, ms from 1970: what happened while the jobs
   * were down it does not know.
   */
  public long began() {
    return began;
  }

  /** Sets the timer to a time, ms from 1970. */
  public void set(TimerService timers, long at) throws IOException {
    timer.keep(at);
    timers.registerProcessingTimeTimer(at);
  }

  /** Sets the timer to a time, ms from 1970, unless it rings before that. */
  public void setBy(TimerService timers, long at) throws IOException {
    Long set = timer.get();
    if (set == null || set > at) {
      set(timers, at);
    }
  }

  /** Sets the timer to the next multiple of {@code stepMs}, unless it rings before that. */
  public void setNext(TimerService timers, long now, long stepMs) throws IOException {
    setBy(timers, (now / stepMs + 1) * stepMs);
  }

  /** Notes that the timer has fired; returns its time, ms from 1970. */
  public long rang(TimerService timers) {
    timer.forget();
    long now = timers.currentProcessingTime();
    began = Math.min(began, now); // the clock may have been set back
    return now;
  }
}
