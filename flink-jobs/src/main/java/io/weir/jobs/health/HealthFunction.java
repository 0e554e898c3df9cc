package io.weir.jobs.health;

import io.weir.jobs.alerts.AlertMessage;
import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.EnrolmentCheck;
import io.weir.jobs.message.LedgerEvent;
import io.weir.jobs.metrics.Metric;
import io.weir.jobs.operator.KeyedValue;
import io.weir.jobs.serde.FieldSerializer;
import java.time.Duration;
import java.util.List;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.metrics.Counter;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * The job {@code health}: turns each probe's ledger events into alerts that it opens, updates and
 * closes. When Kafka has not listed a probe for {@link io.weir.jobs.message.Retired#AFTER_MS}, the
 * job closes its alerts and forgets it.
 */
public final class HealthFunction extends KeyedProcessFunction<String, LedgerEvent, AlertMessage> {
  private static final long serialVersionUID = 1;

  private static final Metric TOLD =
      Metric.counter("alerts", "health", "Alerts opened, updated and closed");
  static final List<Metric> METRICS = List.of(TOLD);

  private final long graceMs;
  private transient KeyedValue<ProbeHealth> state;
  private transient EnrolmentCheck enrolled;
  private transient Counter told;

  HealthFunction(Duration grace) {
    graceMs = grace.toMillis();
  }

  /**
   * Turns events and the list of probes into alerts.
   *
   * @param grace how long after its end an interval may still close
   */
  public static DataStream<AlertMessage> alerts(
      DataStream<LedgerEvent> events, DataStream<Enrolment> enrolments, Duration grace) {
    return LedgerEvent.byProbe(events, enrolments, "health")
        .process(new HealthFunction(grace))
        .returns(AlertMessage.TYPE)
        .name("health")
        .uid("health");
  }

  @Override
  public void open(OpenContext context) {
    var runtime = getRuntimeContext();
    state = new KeyedValue<>(runtime, "health", new FieldSerializer<>(ProbeHealth.class));
    enrolled = new EnrolmentCheck(runtime);
    told = TOLD.register(runtime.getMetricGroup());
  }

  @Override
  public void processElement(LedgerEvent event, Context context, Collector<AlertMessage> out)
      throws Exception {
    long now = context.timerService().currentProcessingTime();
    ProbeHealth health = state.get(ProbeHealth::new);
    health.accept(event, now, graceMs, alert -> tell(alert, out));
    state.keep(health);
    enrolled.again(context.timerService());
  }

  @Override
  public void onTimer(long timestamp, OnTimerContext context, Collector<AlertMessage> out)
      throws Exception {
    ProbeHealth health = state.get();
    if (enrolled.isRemoved(context.timerService(), health.checkedAt())) {
      health.end(context.timerService().currentProcessingTime(), alert -> tell(alert, out));
      state.forget();
    }
  }

  private void tell(AlertMessage alert, Collector<AlertMessage> out) {
    told.inc();
    out.collect(alert);
  }
}
