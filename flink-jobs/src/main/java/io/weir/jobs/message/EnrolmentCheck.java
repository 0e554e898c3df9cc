package io.weir.jobs.message;

import io.weir.jobs.operator.KeyedValue;
import io.weir.jobs.operator.WakeUp;
import java.io.IOException;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.streaming.api.TimerService;
import org.apache.flink.streaming.api.operators.StreamingRuntimeContext;

/**
 * The timer by which a function that is keyed by probe checks whether the probe is still enrolled.
 */
public final class EnrolmentCheck {
  /** A check that comes so late comes after a leap of the clock. */
  private static final long LATE_MS = 60_000;

  private final WakeUp timer;

  /**
   * When the probe was last listed, if it has looked removed since a leap of the clock; ms from
   * 1970. It is removed if it is still not listed {@link Retired#AFTER_MS} later.
   */
  private final KeyedValue<Long> doubted;

  /**
   * When this attempt began, ms from 1970: while the jobs are down, no list of probes arrives. A
   * subtask with only removed probes receives nothing before their timers fire.
   */
  private long began;

  /** Registers the timer in the function's state. */
  public EnrolmentCheck(RuntimeContext runtime) {
    timer = new WakeUp(runtime);
    doubted = new KeyedValue<>(runtime, "doubted", LongSerializer.INSTANCE);
    began =
        ((StreamingRuntimeContext) runtime).getProcessingTimeService().getCurrentProcessingTime();
  }

  /** Checks the probe again after {@link Retired#AFTER_MS}, if it is not to be checked before. */
  public void again(TimerService timers) throws IOException {
    timer.setBy(timers, timers.currentProcessingTime() + Retired.AFTER_MS);
  }

  /**
   * The timer has fired: whether the probe has been removed. If not, checks it again when it could
   * be.
   *
   * @param listed when the probe was last listed as enrolled, ms from 1970
   */
  public boolean isRemoved(TimerService timers, long listed) throws IOException {
    long now = timer.rang(timers);
    began = Math.min(began, now); // the clock may have been set back
    long until = Math.max(listed, began) + Retired.AFTER_MS;
    Long before = doubted.get();
    doubted.forget();
    if (now < until) {
      timer.set(timers, until);
      return false;
    }
    if (now - until < LATE_MS || (before != null && before == listed)) {
      return true;
    }
    doubted.keep(listed);
    timer.set(timers, now + Retired.AFTER_MS);
    return false;
  }
}
