package io.weir.jobs.health;

import io.weir.jobs.alerts.AlertMessage;
import io.weir.jobs.alerts.AlertRecords;
import io.weir.jobs.graph.Job;
import io.weir.jobs.graph.Streams;
import io.weir.jobs.metrics.Metric;
import io.weir.jobs.table.TableRow;
import java.util.List;
import org.apache.flink.streaming.api.datastream.DataStream;

/**
 * The job {@code health}: sends alerts on probes and on the jobs' checkpoints to the store and to
 * Kafka.
 */
public final class Health extends Job {
  /** Declares the job. */
  public Health() {
    super(
        "health",
        "alerts: probes that are silent or late, drop packets, or have a wrong clock, an incomplete"
            + " ledger or a growing lag; failing checkpoints; a clock of the jobs that is ahead");
  }

  @Override
  public void attach(Streams streams) {
    DataStream<AlertMessage> alerts =
        HealthFunction.alerts(streams.events(), streams.enrolments(), streams.grace())
            .union(
                CheckpointFunction.alerts(streams.enrolments()),
                ClockHealth.alerts(streams.lists()));
    streams.storeRows(
        "alerts",
        alerts
            .map(AlertMessage::row)
            .returns(TableRow.TYPE)
            .name("health-rows")
            .uid("health-rows"));
    alerts.sinkTo(AlertRecords.sink(streams.options().brokers)).name("alerts").uid("alerts");
  }

  @Override
  public List<Metric> metrics() {
    return HealthFunction.METRICS;
  }
}
