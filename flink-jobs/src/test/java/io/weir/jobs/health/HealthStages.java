package io.weir.jobs.health;

import io.weir.jobs.alerts.AlertMessage;
import io.weir.jobs.message.LedgerEvent;
import java.time.Duration;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;

/** The operator of the job health, for tests outside its package. */
public final class HealthStages {
  private HealthStages() {}

  public static OneInputStreamOperator<LedgerEvent, AlertMessage> operator() {
    return new KeyedProcessOperator<>(new HealthFunction(Duration.ofSeconds(20)));
  }
}
