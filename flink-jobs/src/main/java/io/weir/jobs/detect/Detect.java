package io.weir.jobs.detect;

import static io.weir.jobs.operator.Named.named;

import io.weir.jobs.alerts.AlertMessage;
import io.weir.jobs.alerts.AlertRecords;
import io.weir.jobs.graph.Job;
import io.weir.jobs.graph.Streams;
import io.weir.jobs.metrics.Metric;
import io.weir.jobs.table.TableRow;
import java.util.List;
import java.util.stream.Stream;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;

/**
 * The job {@code detect}: judges hosts, prefixes and customers by the records as they come, and
 * sends alerts to the store and to Kafka.
 */
public final class Detect extends Job {
  /** Declares the job. */
  public Detect() {
    super(
        "detect",
        "alerts on hosts, prefixes and customers: scans, floods, reflection, guessed passwords");
  }

  @Override
  public void attach(Streams streams) {
    DataStream<AlertMessage> alerts =
        named(
            Judge.NAME,
            AlertMessage.TYPE,
            streams
                .accepted()
                .transform(Observe.NAME, Seen.TYPE, new Observe())
                .uid(Observe.NAME)
                .keyBy(Seen::bucket, Types.INT)
                .process(new Judge()));
    streams.storeRows(
        "detected", named("detected-rows-of", TableRow.TYPE, alerts.map(AlertMessage::row)));
    alerts
        .sinkTo(AlertRecords.sink(streams.options().brokers))
        .name("detected-alerts")
        .uid("detected-alerts");
  }

  @Override
  public List<Metric> metrics() {
    return Stream.concat(Observe.METRICS.stream(), Judge.METRICS.stream()).toList();
  }
}
