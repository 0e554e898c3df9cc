package io.weir.jobs.alerts;

import static io.weir.jobs.operator.Named.named;

import io.weir.jobs.graph.Job;
import io.weir.jobs.graph.Streams;
import io.weir.jobs.message.AgentAlert;
import io.weir.jobs.metrics.Metric;
import io.weir.jobs.source.TopicKind;
import io.weir.jobs.table.TableRow;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;

/** The job {@code alerts}: sends the agents' own alerts to the store and to {@code weir.alerts}. */
public final class Alerts extends Job {
  /** Declares the job. */
  public Alerts() {
    super("alerts", "checks the agents' own alerts, and forwards them");
  }

  @Override
  public TopicKind reads() {
    return TopicKind.ALERTS;
  }

  @Override
  public void attach(Streams streams) {
    streams.setAside();
    DataStream<AlertMessage> alerts =
        named(
            "agent-alerts",
            AlertMessage.TYPE,
            streams.alerts().keyBy(AgentAlert::probe, Types.STRING).process(new Forward()));
    streams.storeRows(
        "agent-alerts",
        named("agent-alert-rows", TableRow.TYPE, alerts.map(AlertMessage::agentRow)));
    alerts
        .sinkTo(AlertRecords.sink(streams.options().brokers))
        .name("forwarded-alerts")
        .uid("forwarded-alerts");
  }

  @Override
  public List<Metric> metrics() {
    return Forward.METRICS;
  }
}
