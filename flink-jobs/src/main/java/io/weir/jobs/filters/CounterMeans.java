package io.weir.jobs.filters;

import static io.weir.jobs.operator.Named.named;

import io.weir.jobs.message.Accepted;
import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.Retired;
import io.weir.jobs.metrics.Metric;
import io.weir.jobs.operator.KeyedValue;
import io.weir.jobs.operator.WakeUp;
import io.weir.jobs.table.TableRow;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * The means of the job {@code filters}: turns counters into rows of {@code counter_means}, per
 * probe and over all probes. See {@link Means} for when a window is complete. It forgets a probe
 * that has been removed ({@link Retired}), and the windows that were over of a scope without
 * counters for {@link Retired#LATE_MS}: late counters for those would otherwise count as new ones.
 */
public final class CounterMeans extends KeyedProcessFunction<String, MeansMessage, TableRow> {
  private static final long serialVersionUID = 1;
  private static final long TICK_MS = 1_000;

  private static final Metric DROPPED =
      Metric.counter(
          "counters_without_mean",
          "means",
          "Counters left out of a window (they are in `counters`), by `cause`: `too_late`, `too_many_labels`, `interval_too_long`");
  static final List<Metric> METRICS = List.of(DROPPED);

  private final long delayMs;

  private transient KeyedValue<Means> means;
  private transient WakeUp timer;

  /** By scope over all probes; begins afresh with each start. */
  private transient Map<String, Retired> retired;

  private transient MetricGroup metrics;
  private transient Map<String, Counter> dropped;

  CounterMeans(Duration delay) {
    delayMs = delay.toMillis();
  }

  /**
   * Turns counters and the list of probes into rows of {@code counter_means}.
   *
   * @param delay how long after its end a window waits for missing counters
   */
  public static DataStream<TableRow> rows(
      DataStream<Accepted> accepted, DataStream<Enrolment> enrolments, Duration delay) {
    DataStream<MeansMessage> counted =
        named("means-scopes", MeansMessage.TYPE, accepted.flatMap(Scopes::split));
    DataStream<MeansMessage> enrolled =
        named("means-enrolled", MeansMessage.TYPE, enrolments.flatMap(Scopes::enrolled));
    KeyedStream<MeansMessage, String> scopes =
        counted.union(enrolled).keyBy(MeansMessage::scope, Types.STRING);
    return named("means", TableRow.TYPE, scopes.process(new CounterMeans(delay)));
  }

  @Override
  public void open(OpenContext context) {
    RuntimeContext runtime = getRuntimeContext();
    means = new KeyedValue<>(runtime, "means", new Means.Serializer());
    timer = new WakeUp(runtime);
    metrics = runtime.getMetricGroup();
    dropped = new HashMap<>();
    retired = new HashMap<>();
  }

  @Override
  public void processElement(MeansMessage message, Context context, Collector<TableRow> out)
      throws Exception {
    long now = context.timerService().currentProcessingTime();
    boolean ofTime = message.isLeftOut() || message.enrolled() >= 0;
    if (ofTime && !Scopes.isAll(message.scope()) && means.get() == null) {
      return; // the probe has sent no counters
    }
    Means known = means.get(Means::new);
    known.accept(message, now, this::drop);
    if (message.enrolled() >= 0) {
      List<String> names = Enrolment.names(message.probe());
      Retired of = retired.computeIfAbsent(context.getCurrentKey(), key -> new Retired());
      known.forget(of.among(known.probes(), names, now));
    }
    if (known.isTickDue(now)) {
      known.tick(context.getCurrentKey(), now, delayMs, out::collect);
    }
    means.keep(known);
    schedule(known, context, now);
  }

  @Override
  public void onTimer(long timestamp, OnTimerContext context, Collector<TableRow> out)
      throws Exception {
    long now = timer.rang(context.timerService());
    Means known = means.get();
    if (known == null) {
      return;
    }
    if (known.isEmpty()) {
      long until = Math.min(known.tickedAt(), now) + Retired.LATE_MS;
      if (now < until) {
        timer.set(context.timerService(), until);
      } else {
        means.forget();
      }
      return;
    }
    known.tick(context.getCurrentKey(), now, delayMs, out::collect);
    means.keep(known);
    schedule(known, context, now);
  }

  private void schedule(Means known, Context context, long now) throws Exception {
    if (!known.isEmpty()) {
      timer.setNext(context.timerService(), now, TICK_MS);
    } else {
      timer.setBy(context.timerService(), now + Retired.LATE_MS);
    }
  }

  private void drop(String cause, int count) {
    dropped.computeIfAbsent(cause, key -> DROPPED.register(metrics, key)).inc(count);
  }
}
