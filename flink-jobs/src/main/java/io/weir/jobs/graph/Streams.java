package io.weir.jobs.graph;

import static io.weir.jobs.operator.Named.named;

import io.weir.jobs.enrich.Enrich;
import io.weir.jobs.enrich.Lookups;
import io.weir.jobs.enrich.Reference;
import io.weir.jobs.message.Accepted;
import io.weir.jobs.message.AgentAlert;
import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.LedgerEvent;
import io.weir.jobs.message.RawMessage;
import io.weir.jobs.metrics.Metric;
import io.weir.jobs.sink.ClickHouseSink;
import io.weir.jobs.sink.ClickHouseSinkOperator;
import io.weir.jobs.sink.CountingSink;
import io.weir.jobs.sink.NativeBlock;
import io.weir.jobs.sink.RowBlocks;
import io.weir.jobs.source.Accept;
import io.weir.jobs.source.DeadLetterRecords;
import io.weir.jobs.source.EnrolmentPoll;
import io.weir.jobs.source.Messages;
import io.weir.jobs.table.TableRow;
import io.weir.jobs.window.WindowJob;
import io.weir.jobs.window.Windows;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * Streams and sinks that the jobs of one graph share: the messages, their enrichment, the list of
 * probes, and the sink into the store. Every operator has a uid, by which Flink assigns restored
 * state to it.
 */
public final class Streams {
  /** The uid of the source that reads Kafka. */
  public static final String KAFKA = "kafka";

  /** The folder of the sinks' blocks, in that of the checkpoints. */
  public static final String ROWS = "/rows";

  private final Options options;
  private final SingleOutputStreamOperator<Accepted> received;
  private final SingleOutputStreamOperator<Accepted> enriched;
  private final DataStream<Enrolment> lists;
  private final DataStream<Enrolment> enrolments;
  private final List<WindowJob> windowJobs = new ArrayList<>();
  private boolean setsAside;

  /** Connects the source, the checks and the enrichment. */
  public Streams(Options options, StreamExecutionEnvironment environment) {
    this.options = options;
    DataStream<RawMessage> messages =
        environment
            .fromSource(
                Messages.source(
                    options.brokers,
                    options.group,
                    options.jobs.stream().map(Job::reads).toList(),
                    options.topics,
                    options.start,
                    options.discoveryInterval),
                WatermarkStrategy.noWatermarks(),
                "kafka")
            .uid(KAFKA);
    received = named("accept", Accepted.TYPE, messages.process(new Accept()));
    enriched =
        named("enrich", Accepted.TYPE, received.process(new Enrich(lookups(), options.privacy)));
    lists =
        EnrolmentPoll.stream(
            environment, options.brokers, options.topics, options.discoveryInterval);
    enrolments =
        lists
            .filter(Enrolment::isBelieved)
            .name("enrolment-believed")
            .uid("enrolment-believed")
            .setParallelism(1);
  }

  /** The metrics of the shared parts. */
  public static List<Metric> metrics() {
    return Stream.of(
            Messages.METRICS,
            Accept.METRICS,
            Enrich.METRICS,
            Windows.METRICS,
            ClickHouseSinkOperator.METRICS,
            CountingSink.METRICS)
        .flatMap(List::stream)
        .toList();
  }

  /** The parsed command line. */
  public Options options() {
    return options;
  }

  /** What operators declare and look up: one for each process. */
  public Lookups.Factory lookups() {
    Reference.Sources sources =
        new Reference.Sources(options.brokers, options.asDatabase, options.countryDatabase);
    return () -> Reference.open(sources);
  }

  /** Each message; a batch with the enrichment of its records. */
  public DataStream<Accepted> accepted() {
    return enriched;
  }

  /** Rows of the names of autonomous systems. */
  public DataStream<TableRow> autonomousSystems() {
    return enriched.getSideOutput(Enrich.AUTONOMOUS_SYSTEMS);
  }

  /** Alerts of agents, checked. */
  public DataStream<AgentAlert> alerts() {
    return received.getSideOutput(Accept.ALERTS);
  }

  /** An event for each message, for the ledger and for alerts on probes. */
  public DataStream<LedgerEvent> events() {
    return received.getSideOutput(Accept.LEDGER);
  }

  /** The list of enrolled probes, every few seconds, even while the jobs' clock is doubted. */
  public DataStream<Enrolment> lists() {
    return lists;
  }

  /** The list of enrolled probes, every few seconds while the jobs' clock is believed. */
  public DataStream<Enrolment> enrolments() {
    return enrolments;
  }

  /** How long after its end an interval may still close. */
  public Duration grace() {
    return options.nationalDelay.plus(options.discoveryInterval);
  }

  /** Sends unreadable messages to Kafka; sends each once, even if several jobs call this. */
  public void setAside() {
    if (!setsAside) {
      setsAside = true;
      received
          .getSideOutput(Accept.DEAD_LETTERS)
          .sinkTo(DeadLetterRecords.sink(options.brokers))
          .name("dead-letters")
          .uid("dead-letters");
    }
  }

  /** Connects a job to the windows of flows, which all such jobs share. */
  public void window(WindowJob job) {
    windowJobs.add(job);
  }

  /** Stores rows of tables that get few rows. */
  public void storeRows(String name, DataStream<TableRow> rows) {
    String uid = name + "-rows";
    store(name, rows.transform(uid, NativeBlock.TYPE, new RowBlocks()).uid(uid));
  }

  /** Stores blocks of rows. */
  public void store(String name, DataStream<NativeBlock> blocks) {
    String uid = "store-" + name;
    SingleOutputStreamOperator<Void> stored =
        options.counting
            ? blocks.transform(uid, Types.VOID, new CountingSink())
            : blocks.transform(uid, Types.VOID, new ClickHouseSink(sink(name)));
    stored.uid(uid).sinkTo(new DiscardingSink<>()).name(uid + "-end").uid(uid + "-end");
  }

  private ClickHouseSink.Config sink(String name) {
    return new ClickHouseSink.Config(
        options.clickhouse,
        Options.uri(options.checkpoints) + ROWS + "/" + name,
        options.maxPending / options.parallelism,
        options.retryFor,
        ClickHouseSink.REMEMBERED);
  }

  /** Call this after all jobs have attached themselves. */
  public void complete() {
    if (!windowJobs.isEmpty()) {
      storeRows(
          "windows",
          Windows.rows(
              enriched,
              enrolments,
              options.window,
              options.nationalDelay,
              options.answerTimeout,
              options.windowFlows,
              windowJobs));
    }
  }
}
