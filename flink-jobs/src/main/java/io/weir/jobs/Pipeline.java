package io.weir.jobs;

import io.weir.jobs.Options.Job;
import io.weir.jobs.enrich.Enrich;
import io.weir.jobs.enrich.Reference;
import io.weir.jobs.filters.CounterMeans;
import io.weir.jobs.filters.CounterRows;
import io.weir.jobs.health.AlertRecords;
import io.weir.jobs.health.HealthAlert;
import io.weir.jobs.health.HealthFunction;
import io.weir.jobs.indicators.Indicators;
import io.weir.jobs.ingest.FlowBlocks;
import io.weir.jobs.ledger.LedgerFunction;
import io.weir.jobs.message.Accepted;
import io.weir.jobs.message.DeadLetter;
import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.RawMessage;
import io.weir.jobs.mixes.Mixes;
import io.weir.jobs.sink.ClickHouseSink;
import io.weir.jobs.sink.CountingSink;
import io.weir.jobs.sink.NativeBlock;
import io.weir.jobs.sink.RowBlocks;
import io.weir.jobs.source.Accept;
import io.weir.jobs.source.DeadLetterRecords;
import io.weir.jobs.source.EnrolmentPoll;
import io.weir.jobs.source.RawMessageDeserializer;
import io.weir.jobs.table.TableRow;
import io.weir.jobs.topn.Topn;
import io.weir.jobs.window.Windows;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Properties;
import java.util.regex.Pattern;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * Joins the jobs to the source they share and to their sinks. Every operator has a uid: state finds
 * its place by it.
 */
final class Pipeline {
  private final Options options;
  private final StreamExecutionEnvironment environment;

  Pipeline(Options options, StreamExecutionEnvironment environment) {
    this.options = options;
    this.environment = environment;
  }

  void build() {
    SingleOutputStreamOperator<Accepted> received =
        environment
            .fromSource(source(), WatermarkStrategy.noWatermarks(), "kafka")
            .uid("kafka")
            .process(new Accept())
            .returns(Accepted.TYPE)
            .name("accept")
            .uid("accept");
    SingleOutputStreamOperator<Accepted> accepted = enriched(received);
    if (options.has(Job.INGEST) || options.has(Job.FILTERS)) {
      received
          .getSideOutput(Accept.DEAD_LETTERS)
          .sinkTo(deadLetters())
          .name("dead-letters")
          .uid("dead-letters");
    }
    DataStream<Enrolment> enrolments =
        EnrolmentPoll.stream(environment, options.brokers, options.discoveryInterval);
    if (options.has(Job.INGEST)) {
      SingleOutputStreamOperator<NativeBlock> blocks =
          accepted.transform("flows", NativeBlock.TYPE, new FlowBlocks()).uid("flows");
      store("flows", blocks);
      storeRows("autonomous-systems", accepted.getSideOutput(Enrich.AUTONOMOUS_SYSTEMS));
      storeRows(
          "ledger",
          LedgerFunction.rows(
              received.getSideOutput(Accept.LEDGER),
              enrolments,
              options.nationalDelay.plus(options.discoveryInterval),
              options.start.equals("latest")));
    }
    if (options.hasWindows()) {
      storeRows(
          "windows",
          Windows.rows(
              accepted,
              enrolments,
              options.window,
              options.nationalDelay,
              options.answerTimeout,
              options.windowFlows,
              windowJobs()));
    }
    if (options.has(Job.FILTERS)) {
      storeRows(
          "counters",
          accepted
              .flatMap(new CounterRows())
              .returns(TableRow.TYPE)
              .name("counters")
              .uid("counters"));
      storeRows("counter-means", CounterMeans.rows(accepted, enrolments, options.nationalDelay));
    }
    if (options.has(Job.HEALTH)) {
      DataStream<HealthAlert> alerts =
          HealthFunction.alerts(
              received.getSideOutput(Accept.LEDGER),
              enrolments,
              options.nationalDelay.plus(options.discoveryInterval));
      storeRows(
          "alerts",
          alerts
              .map(HealthAlert::row)
              .returns(TableRow.TYPE)
              .name("health-rows")
              .uid("health-rows"));
      alerts.sinkTo(alertRecords()).name("alerts").uid("alerts");
    }
  }

  /** What every job reads: each batch with what is known of its records. */
  private SingleOutputStreamOperator<Accepted> enriched(DataStream<Accepted> received) {
    Reference.Sources sources =
        new Reference.Sources(options.brokers, options.asDatabase, options.countryDatabase);
    return received
        .process(new Enrich(() -> Reference.open(sources)))
        .returns(Accepted.TYPE)
        .name("enrich")
        .uid("enrich");
  }

  private KafkaSource<RawMessage> source() {
    boolean counters = options.has(Job.FILTERS);
    boolean flows = !options.jobs.equals(EnumSet.of(Job.FILTERS));
    String kinds = flows ? counters ? "(flows|counters)" : "flows" : "counters";
    return KafkaSource.<RawMessage>builder()
        .setBootstrapServers(options.brokers)
        .setGroupId(options.group)
        .setTopicPattern(Pattern.compile("weir\\." + kinds + "\\.(" + options.topics + ")"))
        .setStartingOffsets(start())
        .setDeserializer(new RawMessageDeserializer())
        .setProperty("client.id.prefix", options.group)
        .setProperty(
            "partition.discovery.interval.ms", Long.toString(options.discoveryInterval.toMillis()))
        .setProperty("allow.auto.create.topics", "false")
        .setProperty("commit.offsets.on.checkpoint", "true")
        // A message is up to 4 MiB and holds 500 records: few at a time are enough, and memory
        // stays bounded.
        .setProperty("max.poll.records", "200")
        .setProperty("max.partition.fetch.bytes", Integer.toString(4 << 20))
        .setProperty("fetch.max.bytes", Integer.toString(16 << 20))
        .build();
  }

  @SuppressWarnings("deprecation") // the connector takes no other type
  private OffsetsInitializer start() {
    return switch (options.start) {
      case "earliest" -> OffsetsInitializer.earliest();
      case "latest" -> OffsetsInitializer.latest();
      default ->
          OffsetsInitializer.committedOffsets(
              org.apache.kafka.clients.consumer.OffsetResetStrategy.EARLIEST);
    };
  }

  private KafkaSink<DeadLetter> deadLetters() {
    Properties properties = new Properties();
    properties.setProperty("compression.type", "zstd");
    properties.setProperty("max.request.size", Integer.toString(8 << 20));
    return KafkaSink.<DeadLetter>builder()
        .setBootstrapServers(options.brokers)
        .setKafkaProducerConfig(properties)
        .setRecordSerializer(new DeadLetterRecords())
        .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        .build();
  }

  private List<Windows.Job> windowJobs() {
    List<Windows.Job> jobs = new ArrayList<>();
    if (options.has(Job.TOPN)) {
      jobs.add(Topn.job(options.window, options.top));
    }
    if (options.has(Job.INDICATORS)) {
      jobs.add(Indicators.job(options.window, options.top, options.portReport));
    }
    if (options.has(Job.MIXES)) {
      jobs.add(Mixes.job(options.mixWindow, options.mixTop, options.mixTopAs));
    }
    return jobs;
  }

  private KafkaSink<HealthAlert> alertRecords() {
    return KafkaSink.<HealthAlert>builder()
        .setBootstrapServers(options.brokers)
        .setRecordSerializer(new AlertRecords())
        .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        .build();
  }

  private void storeRows(String name, DataStream<TableRow> rows) {
    String uid = name + "-rows";
    store(name, rows.transform(uid, NativeBlock.TYPE, new RowBlocks()).uid(uid));
  }

  private void store(String name, DataStream<NativeBlock> blocks) {
    String uid = "store-" + name;
    SingleOutputStreamOperator<Void> stored =
        options.counting
            ? blocks.transform(uid, Types.VOID, new CountingSink())
            : blocks.transform(uid, Types.VOID, new ClickHouseSink(sinkConfig(name)));
    stored.uid(uid).sinkTo(new DiscardingSink<>()).name(uid + "-end").uid(uid + "-end");
  }

  private ClickHouseSink.Config sinkConfig(String name) {
    return new ClickHouseSink.Config(
        options.clickhouse,
        WeirJobs.uri(options.checkpoints) + "/rows/" + name,
        options.maxPending / options.parallelism,
        options.retryFor);
  }
}
