package io.weir.jobs.detect;

import io.weir.jobs.alerts.AlertMessage;
import io.weir.jobs.enrich.Lookups;
import io.weir.jobs.metrics.Metric;
import io.weir.jobs.operator.KeyedValue;
import io.weir.jobs.operator.WakeUp;
import io.weir.jobs.serde.FieldSerializer;
import io.weir.proto.Rule;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.metrics.Counter;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Judges the subjects of one bucket by what detectors gathered, and turns findings into alerts.
 * Intervals are event time: a backlog gives the events that live reading gave. Only for a probe
 * that is silent does an event wait no longer than {@link #SILENT_MS}, by the clock.
 */
public final class Judge extends KeyedProcessFunction<Integer, Seen, AlertMessage> {
  private static final long serialVersionUID = 1;

  static final String NAME = "detect";

  /** How long a probe that closes no interval keeps events open. */
  static final long SILENT_MS = 300_000;

  /** How long a subject is remembered of which nothing is seen. */
  static final long REMEMBERED_MS = 3_600_000;

  private static final long CHECK_MS = 30_000;

  private static final Metric TOLD =
      Metric.counter("detected_alerts", NAME, "Alerts on hosts, prefixes and customers told");
  private static final Metric DISPLACED =
      Metric.counter(
          "displaced_subjects", NAME, "Subjects that a detector forgot to make room for others");
  static final List<Metric> METRICS = List.of(TOLD, DISPLACED);

  private final Lookups.Factory factory;
  private transient Lookups lookups;
  private transient List<Rule> declared;
  private transient Rules rules;
  private transient KeyedValue<Memories> state;
  private transient WakeUp timer;
  private transient Map<Integer, Detector<?>> detectors;
  private transient Counter told;
  private transient Counter displaced;

  /** Judges by the rules that the look-ups hold. */
  public Judge(Lookups.Factory factory) {
    this.factory = factory;
  }

  @Override
  public void open(OpenContext context) throws Exception {
    var runtime = getRuntimeContext();
    lookups = factory.open();
    state = new KeyedValue<>(runtime, "memories", new FieldSerializer<>(Memories.class));
    timer = new WakeUp(runtime);
    detectors = new HashMap<>();
    Detectors.all().forEach(detector -> detectors.put(detector.id(), detector));
    told = TOLD.register(runtime.getMetricGroup());
    displaced = DISPLACED.register(runtime.getMetricGroup());
  }

  @Override
  public void close() {
    if (lookups != null) {
      lookups.close();
    }
  }

  @Override
  public void processElement(Seen seen, Context context, Collector<AlertMessage> out)
      throws Exception {
    long now = context.timerService().currentProcessingTime();
    List<Rule> newest = lookups.now().rules();
    if (newest != declared) {
      declared = newest;
      rules =
          new Rules(
              newest, detectors.values().stream().flatMap(one -> one.reasons().stream()).toList());
    }
    Memories memories = state.get(Memories::new);
    Consumer<AlertMessage> tell = teller(out);
    for (Seen.Part part : seen.parts()) {
      memories.ends.putIfAbsent(part.probe(), 0L);
      memories.heard.put(part.probe(), now);
      judge(memories, part, tell);
    }
    for (int i = 0; i < seen.ends().length; i++) {
      memories.ends.merge(seen.probes().get(i), seen.ends()[i], Math::max);
      memories.heard.put(seen.probes().get(i), now);
    }
    displaced.inc(memories.takeDisplaced());
    if (seen.ends().length > 0) {
      close(memories, now, tell);
    }
    state.keep(memories);
    if (!memories.isEmpty()) {
      timer.setNext(context.timerService(), now, CHECK_MS);
    }
  }

  private Consumer<AlertMessage> teller(Collector<AlertMessage> out) {
    return alert -> {
      told.inc();
      out.collect(alert);
    };
  }

  private void judge(Memories memories, Seen.Part part, Consumer<AlertMessage> out) {
    long[] cells = part.groups();
    int next;
    for (int at = 0; at < cells.length; at = next) {
      int begin = at + Gathered.HEAD;
      next = begin + (int) cells[at + Gathered.HEAD - 1];
      Subject subject =
          new Subject(Subject.Kind.values()[(int) cells[at + 1]], cells[at + 2], cells[at + 3]);
      Evidence evidence =
          new Evidence(subject, part.probe(), part.start(), part.length(), cells, begin, next);
      Limits.Source limits = reason -> rules.limits(reason, subject, part.probe());
      detectors
          .get((int) cells[at])
          .take(
              memories, evidence, limits, finding -> found(memories.events, finding, limits, out));
    }
  }

  private static void found(
      TreeMap<String, Event> events,
      Finding judged,
      Limits.Source limits,
      Consumer<AlertMessage> out) {
    Limits limit = limits.of(judged.reason());
    if (limit.isOff()) {
      return;
    }
    Finding finding = judged.with(limit.severity(judged.degree().severity()));
    Subject subject = finding.subject();
    String key = finding.reason().word() + ' ' + subject.kind().word() + ' ' + subject.text();
    Event event = events.computeIfAbsent(key, unknown -> new Event());
    if (!event.accept(finding, out)) {
      Event another = new Event();
      another.accept(finding, out);
      events.put(key, another);
    }
  }

  private void close(Memories memories, long now, Consumer<AlertMessage> out) {
    for (Event event : memories.events.values()) {
      event.closeIfOver(probe -> end(memories, probe, now), out);
    }
    long newest = newest(memories);
    memories
        .events
        .values()
        .removeIf(event -> !event.isOpen() && event.until() + Event.AMENDED_MS < newest);
  }

  /** Up to where a probe has closed its intervals, or would have if it is silent. */
  private long end(Memories memories, String probe, long now) {
    long heard = Math.max(timer.began(), memories.heard.getOrDefault(probe, 0L));
    return now - heard >= SILENT_MS
        ? Long.MAX_VALUE
        : memories.ends.getOrDefault(probe, Long.MIN_VALUE);
  }

  private static long newest(Memories memories) {
    return memories.ends.values().stream().mapToLong(end -> end).max().orElse(0);
  }

  @Override
  public void onTimer(long timestamp, OnTimerContext context, Collector<AlertMessage> out)
      throws Exception {
    long now = timer.rang(context.timerService());
    Memories memories = state.get(Memories::new);
    close(memories, now, teller(out));
    long since = newest(memories) - REMEMBERED_MS;
    detectors.values().forEach(detector -> detector.forget(memories, since));
    memories.heard.values().removeIf(heard -> now - heard >= REMEMBERED_MS);
    memories.ends.keySet().retainAll(memories.heard.keySet());
    // Where no probe was heard for so long, all events are closed, and the rest is too old.
    if (memories.isEmpty() || memories.heard.isEmpty()) {
      state.forget();
      return;
    }
    state.keep(memories);
    timer.setNext(context.timerService(), now, CHECK_MS);
  }
}
