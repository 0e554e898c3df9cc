package io.weir.jobs.detect;

import static io.weir.jobs.operator.Named.named;

import io.weir.jobs.alerts.AlertMessage;
import io.weir.jobs.alerts.AlertRecords;
import io.weir.jobs.graph.Job;
import io.weir.jobs.graph.Streams;
import io.weir.jobs.metrics.Metric;
import io.weir.jobs.table.TableRow;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
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

  /** The parameters that rules may replace, by reason and name. */
  public static Map<String, Map<String, Map<String, Object>>> rules() {
    Map<String, Map<String, Map<String, Object>>> rules = new LinkedHashMap<>();
    for (Detector<?> detector : Detectors.all()) {
      for (Reason reason : detector.reasons()) {
        Map<String, Map<String, Object>> parameters = new LinkedHashMap<>();
        for (Parameter one : reason.parameters()) {
          Map<String, Object> said = new LinkedHashMap<>();
          said.put("value", one.value());
          said.put("least", one.least());
          said.put("most", one.most());
          said.put("comment", one.comment());
          parameters.put(one.name(), said);
        }
        rules.put(reason.word(), parameters);
      }
    }
    return rules;
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
                .process(new Judge(streams.lookups())));
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
