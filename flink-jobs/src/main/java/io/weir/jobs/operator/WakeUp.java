package io.weir.jobs.operator;

import java.io.IOException;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.streaming.api.TimerService;

/** The one timer that a function sets for each key, by the clock. */
public final class WakeUp {
  private final KeyedValue<Long> timer;

  /** Registers it in the function's state. */
  public WakeUp(RuntimeContext runtime) {
    timer = new KeyedValue<>(runtime, "timer", LongSerializer.INSTANCE);
  }

  /** Whether it will ring. */
  public boolean isSet() throws IOException {
    return timer.get() != null;
  }

  /** Sets it to a time, ms from 1970. */
  public void set(TimerService timers, long at) throws IOException {
    timer.keep(at);
    timers.registerProcessingTimeTimer(at);
  }

  /** Sets it, unless it is, to the next multiple of {@code stepMs}. */
  public void setNext(TimerService timers, long now, long stepMs) throws IOException {
    if (!isSet()) {
      set(timers, (now / stepMs + 1) * stepMs);
    }
  }

  /** Takes note that it rang; returns the time, ms from 1970. */
  public long rang(TimerService timers) {
    timer.forget();
    return timers.currentProcessingTime();
  }
}
