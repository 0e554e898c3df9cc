package io.weir.jobs.message;

import io.weir.jobs.operator.WakeUp;
import java.io.IOException;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.streaming.api.TimerService;
import org.apache.flink.streaming.api.operators.StreamingRuntimeContext;

/**
 * The timer by which a function that is keyed by probe checks whether the probe is still enrolled.
 */
public final class EnrolmentCheck {
  private final WakeUp timer;

  /**
   * When this attempt began, ms from 1970: while the jobs are down, no list of probes arrives. A
   * subtask with only removed probes receives nothing before their timers fire.
   */
  private final long began;

  /** Registers the timer in the function's state. */
  public EnrolmentCheck(RuntimeContext runtime) {
    timer = new WakeUp(runtime);
    began =
        ((StreamingRuntimeContext) runtime).getProcessingTimeService().getCurrentProcessingTime();
  }

  /** Checks the probe again after {@link Retired#AFTER_MS}, if it is not to be checked before. */
  public void again(TimerService timers) throws IOException {
    if (!timer.isSet()) {
      timer.set(timers, timers.currentProcessingTime() + Retired.AFTER_MS);
    }
  }

  /**
   * The timer has fired: whether the probe has been removed. If not, checks it again when it could
   * be.
   *
   * @param listed when the probe was last listed as enrolled, ms from 1970
   */
  public boolean isRemoved(TimerService timers, long listed) throws IOException {
    long until = Math.max(listed, began) + Retired.AFTER_MS;
    if (until <= timer.rang(timers)) {
      return true;
    }
    timer.set(timers, until);
    return false;
  }
}
