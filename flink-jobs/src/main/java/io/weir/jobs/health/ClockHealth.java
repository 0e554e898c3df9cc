package io.weir.jobs.health;

import io.weir.jobs.alerts.AlertMessage;
import io.weir.jobs.health.Condition.Finding;
import io.weir.jobs.message.Enrolment;
import io.weir.jobs.operator.KeyedValue;
import io.weir.jobs.serde.FieldSerializer;
import io.weir.proto.Severity;
import java.util.Map;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Opens an alert when messages show that the clock of the jobs' host is ahead of the broker's, and
 * closes it after the first list of the probes that is believed again. Its one key belongs to no
 * probe; its times are the broker's.
 */
final class ClockHealth extends KeyedProcessFunction<Integer, Enrolment, AlertMessage> {
  private static final long serialVersionUID = 1;

  /** The alert. */
  private static final class State {
    private final Condition condition = new Condition(Reason.JOBS_CLOCK_AHEAD);
  }

  private transient KeyedValue<State> state;

  /** Turns Kafka's lists of the probes, the doubted ones among them, into alerts. */
  static DataStream<AlertMessage> alerts(DataStream<Enrolment> enrolments) {
    return enrolments
        .keyBy(enrolment -> 0, Types.INT)
        .process(new ClockHealth())
        .returns(AlertMessage.TYPE)
        .name("clock-health")
        .uid("clock-health");
  }

  @Override
  public void open(OpenContext context) {
    state = new KeyedValue<>(getRuntimeContext(), "clock", new FieldSerializer<>(State.class));
  }

  @Override
  public void processElement(Enrolment list, Context context, Collector<AlertMessage> out)
      throws Exception {
    State known = state.get(State::new);
    long at = list.at() - Math.max(0, list.ahead());
    if (list.ahead() > 0) {
      String text =
          "The clock of the jobs' host is ahead of Kafka's by about "
              + Math.round(list.ahead() / 1000.0)
              + " s: until they agree, no silent probe and no missing interval is reported.";
      Map<String, Long> values = Map.of("ahead_ms", list.ahead());
      known.condition.holds(
          "", new Finding(at, Severity.SEVERITY_CRITICAL, text, values), at, out::collect);
    } else if (list.isBelieved()) {
      known.condition.holdsNot(at, out::collect);
    }
    state.keep(known);
  }
}
