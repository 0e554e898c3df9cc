package io.weir.jobs;

import io.weir.jobs.graph.Job;
import io.weir.jobs.graph.Options;
import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.configuration.WebOptions;
import org.apache.flink.core.execution.RecoveryClaimMode;
import org.apache.flink.streaming.api.environment.LocalStreamEnvironment;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs Weir's jobs: with {@code java -jar} in a small embedded cluster, with {@code flink run} on
 * an existing one.
 */
public final class WeirJobs {
  private static final Logger LOG = LoggerFactory.getLogger(WeirJobs.class);

  private WeirJobs() {}

  /** See {@link Options#help}. */
  public static void main(String[] arguments) throws Exception {
    List<String> words = List.of(arguments);
    if (words.contains("--help") || words.contains("-h")) {
      System.out.println(Options.help(Jobs.ALL));
      return;
    }
    if (words.contains("--docs")) {
      System.out.print(Docs.markdown());
      return;
    }
    Options options;
    try {
      options = Options.parse(arguments, System.getenv(), Jobs.ALL);
    } catch (Options.BadOption e) {
      System.err.println("weir-flink-jobs: " + e.getMessage());
      System.exit(2);
      return;
    }
    Configuration configuration = configuration(options);
    StreamExecutionEnvironment environment =
        StreamExecutionEnvironment.getExecutionEnvironment(configuration);
    boolean local = environment instanceof LocalStreamEnvironment;
    if (local) {
      try {
        checkOwnName();
        configureLocal(options, configuration);
      } catch (Options.BadOption | IOException e) {
        System.err.println("weir-flink-jobs: " + e.getMessage());
        System.exit(2);
        return;
      }
      environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
    }
    environment.setParallelism(options.parallelism);
    Pipeline.build(options, environment);
    String name =
        options.jobs.stream().map(Job::name).collect(Collectors.joining(",", "weir ", ""));
    if (!local) {
      environment.execute(name);
      return;
    }
    try {
      environment.execute(name);
      System.exit(0);
    } catch (Exception e) {
      LOG.error("the job failed", e);
      System.err.println("weir-flink-jobs: the job failed: " + rootCause(e));
      System.exit(1);
    }
  }

  /** Flink's cluster in this process resolves the machine's own name. */
  private static void checkOwnName() throws Options.BadOption {
    try {
      InetAddress.getLocalHost();
    } catch (UnknownHostException e) {
      String name = e.getMessage().replaceAll(":.*", "");
      throw new Options.BadOption(
          "Flink needs an address for the name of this machine, and '%s' has none: add the line '127.0.1.1 %s' to /etc/hosts"
              .formatted(name, name));
    }
  }

  private static Configuration configuration(Options options) {
    Configuration configuration = new Configuration();
    configuration.set(StateBackendOptions.STATE_BACKEND, "hashmap");
    configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, options.checkpointInterval);
    configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, Options.uri(options.checkpoints));
    configuration.set(
        CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION,
        ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
    // While ClickHouse is away a sink stops its input, barriers included: that is not a failure.
    configuration.set(CheckpointingOptions.TOLERABLE_FAILURE_NUMBER, Integer.MAX_VALUE);
    configuration.set(CheckpointingOptions.CHECKPOINTING_TIMEOUT, Duration.ofMinutes(10));
    configuration.set(PipelineOptions.GENERIC_TYPES, false);
    configuration.set(PipelineOptions.OBJECT_REUSE, true);
    configuration.set(PipelineOptions.AUTO_WATERMARK_INTERVAL, Duration.ZERO);
    configuration.set(RestartStrategyOptions.RESTART_STRATEGY, "exponential-delay");
    configuration.set(
        RestartStrategyOptions.RESTART_STRATEGY_EXPONENTIAL_DELAY_MAX_BACKOFF,
        Duration.ofSeconds(30));
    return configuration;
  }

  private static void configureLocal(Options options, Configuration configuration)
      throws IOException, Options.BadOption {
    configuration.set(RestOptions.ADDRESS, "127.0.0.1");
    configuration.set(RestOptions.BIND_ADDRESS, options.listen);
    configuration.set(RestOptions.PORT, options.restPort);
    configuration.set(RestOptions.BIND_PORT, Integer.toString(options.restPort));
    // Whoever reaches the port must not run programs here.
    configuration.set(WebOptions.SUBMIT_ENABLE, false);
    configuration.setString("metrics.reporters", "prometheus");
    configuration.setString(
        "metrics.reporter.prometheus.factory.class",
        "io.weir.jobs.metrics.BoundPrometheusReporter$Factory");
    configuration.setString("metrics.reporter.prometheus.host", options.listen);
    configuration.setString(
        "metrics.reporter.prometheus.port", Integer.toString(options.metricsPort));
    // Names of chained operators are long, and ids change with every start.
    configuration.setString(
        "metrics.reporter.prometheus.scope.variables.excludes",
        "job_id;task_id;task_name;task_attempt_id;task_attempt_num;operator_id;tm_id;host");
    Path directory = Checkpoints.local(Options.uri(options.checkpoints));
    Files.createDirectories(directory);
    Optional<Path> state;
    switch (options.resume) {
      case "none" -> state = Optional.empty();
      case "latest" -> {
        state = Checkpoints.newest(directory);
        if (state.isPresent()) {
          Checkpoints.removeOthers(directory, state.get());
          if (!Checkpoints.isSavepoint(state.get())) {
            configuration.set(StateRecoveryOptions.RESTORE_MODE, RecoveryClaimMode.CLAIM);
          }
        }
      }
      default -> {
        Path path = Checkpoints.local(options.resume);
        if (!Files.exists(path.resolve("_metadata"))) {
          throw new Options.BadOption("--resume: no complete checkpoint in " + path);
        }
        state = Optional.of(path);
      }
    }
    LOG.info("state: {}", state.map(Path::toString).orElse("none"));
    if (state.isPresent()) {
      configuration.set(StateRecoveryOptions.SAVEPOINT_PATH, Options.uri(state.get()));
      // A job left out by --jobs leaves its state behind.
      configuration.set(StateRecoveryOptions.SAVEPOINT_IGNORE_UNCLAIMED_STATE, true);
    }
  }

  static String rootCause(Throwable failure) {
    Throwable cause = failure;
    while (cause.getCause() != null) {
      cause = cause.getCause();
    }
    return cause.getMessage() == null ? cause.toString() : cause.getMessage();
  }
}
