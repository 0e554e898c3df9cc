package io.weir.jobs.alerts;

import io.weir.jobs.message.AgentAlert;
import io.weir.jobs.message.RawMessage;
import io.weir.jobs.metrics.Metric;
import io.weir.jobs.operator.KeyedValue;
import io.weir.jobs.operator.WakeUp;
import io.weir.jobs.serde.FieldSerializer;
import java.util.List;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.metrics.Counter;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Forwards the checked alerts of agents, of each probe as many as {@link AgentAlerts#PER_MINUTE}
 * and {@link AgentAlerts#PER_DAY} say, so that no probe can bury the others' alerts or fill the
 * store; and closes those of which an agent says nothing more.
 */
public final class Forward extends KeyedProcessFunction<String, AgentAlert, AlertMessage> {
  private static final long serialVersionUID = 1;
  private static final Logger LOG = LoggerFactory.getLogger(Forward.class);
  private static final long LOG_EVERY_MS = 60_000;

  private static final String OPERATOR = "agent-alerts";
  private static final Metric FORWARDED =
      Metric.counter("forwarded_alerts", OPERATOR, "Alerts of agents that were forwarded");
  private static final Metric TOO_MANY =
      Metric.counter(
          "withheld_alerts",
          OPERATOR,
          "Alerts of agents beyond "
              + AgentAlerts.PER_MINUTE
              + " of one probe in a minute, or "
              + AgentAlerts.PER_DAY
              + " in a day");
  private static final Metric CLOSED =
      Metric.counter(
          "closed_agent_alerts", OPERATOR, "Alerts that the job closed in place of the agent");
  static final List<Metric> METRICS = List.of(FORWARDED, TOO_MANY, CLOSED);

  private transient KeyedValue<AgentAlerts> state;
  private transient WakeUp timer;
  private transient Counter forwarded;
  private transient Counter withheld;
  private transient Counter closed;
  private transient long logged;

  @Override
  public void open(OpenContext context) {
    var runtime = getRuntimeContext();
    state = new KeyedValue<>(runtime, "agent-alerts", new FieldSerializer<>(AgentAlerts.class));
    timer = new WakeUp(runtime);
    forwarded = FORWARDED.register(runtime.getMetricGroup());
    withheld = TOO_MANY.register(runtime.getMetricGroup());
    closed = CLOSED.register(runtime.getMetricGroup());
  }

  @Override
  public void processElement(AgentAlert alert, Context context, Collector<AlertMessage> out)
      throws Exception {
    long now = context.timerService().currentProcessingTime();
    AgentAlerts alerts = state.get(AgentAlerts::new);
    if (alerts.takes(RawMessage.came(alert.appended(), now))) {
      forwarded.inc();
      alerts.accept(alert, now, out::collect);
    } else {
      withheld.inc();
      if (Math.abs(now - logged) >= LOG_EVERY_MS) {
        logged = now;
        LOG.warn("{} sends too many alerts", alert.probe());
      }
    }
    state.keep(alerts);
    timer.setBy(context.timerService(), now + AgentAlerts.SILENT_MS);
  }

  @Override
  public void onTimer(long timestamp, OnTimerContext context, Collector<AlertMessage> out)
      throws Exception {
    long now = timer.rang(context.timerService());
    AgentAlerts alerts = state.get(AgentAlerts::new);
    if (now - timer.began() >= AgentAlerts.SILENT_MS) {
      alerts.closeSilent(
          now - AgentAlerts.SILENT_MS,
          now,
          alert -> {
            closed.inc();
            out.collect(alert);
          });
    }
    if (alerts.isOver(now)) {
      state.forget();
      return;
    }
    state.keep(alerts);
    timer.set(
        context.timerService(),
        Math.max(
            alerts.nextSilent(now + AgentAlerts.SILENT_MS), timer.began() + AgentAlerts.SILENT_MS));
  }
}
