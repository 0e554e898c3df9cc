package io.weir.jobs.alerts;

import io.weir.jobs.message.RawMessage;
import io.weir.jobs.metrics.Metric;
import io.weir.proto.Alert;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.metrics.Counter;
import org.apache.flink.util.Collector;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Forwards the checked alerts of agents. Each gets the probe's name before its id, so that no probe
 * can write into an alert of the jobs or of another probe.
 *
 * <p>Of one probe it forwards at most {@link #PER_MINUTE} alerts that the broker received in one
 * minute, so that a probe cannot bury the others' alerts. The broker's clock counts, and a backlog
 * is therefore not taken for a flood.
 */
public final class Forward extends RichFlatMapFunction<RawMessage, AlertMessage> {
  private static final long serialVersionUID = 1;
  private static final Logger LOG = LoggerFactory.getLogger(Forward.class);

  /** Alerts of one probe that are forwarded for each minute. */
  static final int PER_MINUTE = 600;

  private static final String OPERATOR = "agent-alerts";
  private static final Metric FORWARDED =
      Metric.counter("forwarded_alerts", OPERATOR, "Alerts of agents that were forwarded");
  private static final Metric TOO_MANY =
      Metric.counter(
          "withheld_alerts",
          OPERATOR,
          "Alerts of agents beyond " + PER_MINUTE + " of one probe in a minute");
  static final List<Metric> METRICS = List.of(FORWARDED, TOO_MANY);

  private transient Map<String, Minute> minutes;
  private transient Counter forwarded;
  private transient Counter withheld;

  private static final class Minute {
    private long number = Long.MIN_VALUE;
    private int alerts;

    /** Whether there is room for one more. */
    boolean takes(long minute) {
      if (minute != number) {
        number = minute;
        alerts = 0;
      }
      alerts++;
      return alerts <= PER_MINUTE;
    }
  }

  @Override
  public void open(OpenContext context) {
    minutes = new HashMap<>();
    forwarded = FORWARDED.register(getRuntimeContext().getMetricGroup());
    withheld = TOO_MANY.register(getRuntimeContext().getMetricGroup());
  }

  @Override
  public void flatMap(RawMessage raw, Collector<AlertMessage> out) throws Exception {
    Minute minute = minutes.computeIfAbsent(raw.topic(), topic -> new Minute());
    if (!minute.takes(Math.floorDiv(raw.appended(), 60_000))) {
      if (minute.alerts == PER_MINUTE + 1) {
        LOG.warn("{} has more than {} alerts in a minute", raw.topic(), PER_MINUTE);
      }
      withheld.inc();
      return;
    }
    forwarded.inc();
    Alert alert = Alert.parseFrom(raw.value());
    Alert named = alert.toBuilder().setId(alert.getProbe() + ":" + alert.getId()).build();
    // Later messages of an alert have higher offsets, which thus number them.
    out.collect(new AlertMessage(named, (int) Math.min(raw.offset() + 1, Integer.MAX_VALUE)));
  }
}
