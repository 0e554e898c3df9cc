package io.weir.jobs.source;

import io.weir.jobs.message.Accepted;
import io.weir.jobs.message.AgentAlert;
import io.weir.jobs.message.DeadLetter;
import io.weir.jobs.message.LedgerEvent;
import io.weir.jobs.message.RawMessage;
import io.weir.jobs.message.Reports;
import io.weir.jobs.metrics.Metric;
import io.weir.jobs.serde.FieldSerializer;
import io.weir.jobs.source.SeenSequences.Worker;
import io.weir.proto.Flow;
import io.weir.proto.FlowMessage;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The entry of every job: reads messages, diverts unreadable ones, drops repeated ones, and reports
 * all of them to the ledger. Runs where the partition is read, without a shuffle: a partition is a
 * worker, and one subtask reads it, which therefore knows everything that this worker has sent. The
 * state is small and every subtask restores all of it, as partitions may have moved; of what it has
 * not used since, only the first subtask saves it again.
 */
public final class Accept extends ProcessFunction<RawMessage, Accepted>
    implements CheckpointedFunction {
  private static final long serialVersionUID = 1;
  private static final Logger LOG = LoggerFactory.getLogger(Accept.class);
  private static final long LOG_EVERY_MS = 60_000;
  private static final byte[] EMPTY = {};

  private static final String OPERATOR = "accept";
  private static final Metric MESSAGES =
      Metric.counter("received_messages", OPERATOR, "Messages read from Kafka");
  private static final Metric RECORDS =
      Metric.counter("received_records", OPERATOR, "Flow records in messages that were accepted");
  private static final Metric REPEATED =
      Metric.counter(
          "repeated_messages", OPERATOR, "Messages dropped because they had already arrived");
  private static final Metric SET_ASIDE =
      Metric.counter(
          "dead_letters", OPERATOR, "Messages set aside, by `cause` (scope `weir_cause`)");
  private static final Metric FORGOTTEN =
      Metric.counter(
          "forgotten_sequences",
          OPERATOR,
          "Gaps between messages, or runs of agents, forgotten because a probe has too many");
  public static final List<Metric> METRICS =
      List.of(MESSAGES, RECORDS, REPEATED, FORGOTTEN, SET_ASIDE);

  /** Unreadable messages. */
  public static final OutputTag<DeadLetter> DEAD_LETTERS =
      new OutputTag<>("dead-letters", DeadLetter.TYPE);

  /** The ledger's event for each message on a flows topic. */
  public static final OutputTag<LedgerEvent> LEDGER = new OutputTag<>("ledger", LedgerEvent.TYPE);

  /** Alerts of agents that can be forwarded. */
  public static final OutputTag<AgentAlert> ALERTS = new OutputTag<>("alerts", AgentAlert.TYPE);

  private transient SeenSequences seen;
  private transient ListState<SeenSequences.Entry> state;
  private transient MetricGroup metrics;
  private transient Counter messages;
  private transient Counter records;
  private transient Counter repeated;
  private transient Counter forgotten;
  private transient Map<String, Counter> deadLetters;
  private transient Map<String, Long> logged;

  @Override
  public void initializeState(FunctionInitializationContext context) throws Exception {
    seen = new SeenSequences();
    state =
        context
            .getOperatorStateStore()
            .getUnionListState(
                new ListStateDescriptor<>(
                    "seen", new FieldSerializer<>(SeenSequences.Entry.class)));
    seen.restore(state.get());
  }

  @Override
  public void snapshotState(FunctionSnapshotContext context) throws Exception {
    state.clear();
    boolean first = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask() == 0;
    for (SeenSequences.Entry entry : seen.entries(System.currentTimeMillis(), first)) {
      state.add(entry);
    }
  }

  @Override
  public void open(OpenContext context) {
    metrics = getRuntimeContext().getMetricGroup();
    messages = MESSAGES.register(metrics);
    records = RECORDS.register(metrics);
    repeated = REPEATED.register(metrics);
    forgotten = FORGOTTEN.register(metrics);
    deadLetters = new HashMap<>();
    logged = new HashMap<>();
  }

  @Override
  public void processElement(RawMessage raw, Context context, Collector<Accepted> out) {
    messages.inc();
    TopicKind kind = TopicKind.of(raw.topic());
    if (kind == TopicKind.ALERTS) {
      alert(raw, context);
      return;
    }
    Accepted message;
    try {
      message = kind == TopicKind.FLOWS ? Checks.flows(raw) : Checks.counters(raw);
    } catch (Checks.Refused e) {
      refuse(raw, kind, e.getMessage(), context);
      out.collect(leftOut(raw, kind));
      return;
    }
    if (kind == TopicKind.COUNTERS) {
      var header = message.counter();
      boolean isNew = isNew(raw, kind, header.getProbe(), header.getEpoch(), header.getSequence());
      out.collect(isNew ? message : leftOut(raw, kind));
      return;
    }
    FlowMessage flow = message.flow();
    boolean isNew = isNew(raw, kind, flow.getProbe(), flow.getEpoch(), flow.getSequence());
    context.output(LEDGER, event(raw, flow, isNew));
    if (isNew) {
      records.inc(flow.getBatch().getFlowsCount());
    }
    out.collect(isNew ? message : leftOut(raw, kind));
  }

  /** Repeats need no dropping: all messages of one alert have the same id, and their numbers. */
  private void alert(RawMessage raw, Context context) {
    try {
      context.output(ALERTS, Checks.alert(raw));
    } catch (Checks.Refused e) {
      refuse(raw, TopicKind.ALERTS, e.getMessage(), context);
    }
  }

  private static Accepted leftOut(RawMessage raw, TopicKind kind) {
    String probe = raw.topic().substring(kind.prefix().length());
    return kind == TopicKind.FLOWS
        ? Accepted.leftOutFlows(raw, probe)
        : Accepted.leftOutCounters(raw, probe);
  }

  private boolean isNew(RawMessage raw, TopicKind kind, String probe, long epoch, long sequence) {
    Worker worker = new Worker(kind, probe, raw.partition());
    long before = seen.forgotten();
    boolean isNew = seen.add(worker, epoch, sequence, System.currentTimeMillis());
    forgotten.inc(seen.forgotten() - before);
    if (!isNew) {
      repeated.inc();
    }
    return isNew;
  }

  private static LedgerEvent event(RawMessage raw, FlowMessage message, boolean isNew) {
    long packets = 0;
    long octets = 0;
    LedgerEvent.Kind kind;
    byte[] body = EMPTY;
    if (message.hasClosing()) {
      kind = isNew ? LedgerEvent.Kind.CLOSING : LedgerEvent.Kind.READ;
      body = isNew ? message.getClosing().toByteArray() : EMPTY;
    } else {
      kind = isNew ? LedgerEvent.Kind.BATCH : LedgerEvent.Kind.REPEAT;
      body = isNew ? Reports.of(message.getBatch()) : EMPTY;
      for (Flow flow : message.getBatch().getFlowsList()) {
        packets += flow.getFwdPackets() + flow.getRevPackets();
        octets += flow.getFwdOctets() + flow.getRevOctets();
      }
    }
    return new LedgerEvent(
        kind,
        message.getProbe(),
        message.getWorker(),
        message.getEpoch(),
        message.getSequence(),
        message.getIntervalStartMs(),
        message.getIntervalMs(),
        raw.offset(),
        raw.appended(),
        message.getBatch().getFlowsCount(),
        packets,
        octets,
        body);
  }

  private void refuse(RawMessage raw, TopicKind kind, String cause, Context context) {
    String word = cause.substring(0, cause.indexOf(':'));
    deadLetters.computeIfAbsent(word, w -> SET_ASIDE.register(metrics, w)).inc();
    long now = System.currentTimeMillis();
    if (now - logged.getOrDefault(word, 0L) >= LOG_EVERY_MS) {
      logged.put(word, now);
      LOG.warn(
          "set aside {}/{} offset {}: {} (for a minute, further ones with this cause are only counted)",
          raw.topic(),
          raw.partition(),
          raw.offset(),
          cause.replaceAll("\\p{C}", "?")); // a line of its own would look like one of ours
    }
    if (kind == TopicKind.FLOWS) {
      String probe = raw.topic().substring(kind.prefix().length());
      context.output(
          LEDGER, LedgerEvent.read(probe, raw.partition(), raw.offset(), raw.appended()));
    }
    context.output(DEAD_LETTERS, new DeadLetter(raw, cause));
  }
}
