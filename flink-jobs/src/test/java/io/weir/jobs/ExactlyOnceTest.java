package io.weir.jobs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.sink.ClickHouse;
import io.weir.jobs.sink.ClickHouseSink;
import io.weir.jobs.sink.FakeClickHouse;
import io.weir.jobs.sink.FakeClickHouse.Fate;
import io.weir.jobs.sink.NativeBlock;
import io.weir.jobs.sink.RowBlocks;
import io.weir.jobs.table.Table;
import io.weir.jobs.table.TableRow;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.LongStream;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** The sink in a running job that fails, with a server that fails too: every row is stored once. */
@Timeout(120)
@Tag("engine")
@Execution(ExecutionMode.SAME_THREAD)
class ExactlyOnceTest {
  private static final long ROWS = 6_000;

  @TempDir static Path directory;

  private static StreamExecutionEnvironment environment() {
    Configuration configuration = new Configuration();
    configuration.set(RestOptions.BIND_PORT, "0");
    configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(100));
    configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, directory.toUri().toString());
    configuration.set(PipelineOptions.GENERIC_TYPES, false);
    configuration.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
    configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 10);
    configuration.set(
        RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(50));
    StreamExecutionEnvironment environment =
        StreamExecutionEnvironment.createLocalEnvironment(2, configuration);
    environment.setParallelism(2);
    return environment;
  }

  private static void build(StreamExecutionEnvironment environment, String url, double rate) {
    ClickHouse.Endpoint endpoint = new ClickHouse.Endpoint(url, "weir", "writer", () -> "secret");
    ClickHouseSink.Config config =
        new ClickHouseSink.Config(
            endpoint,
            directory.resolve("rows").toUri().toString(),
            1 << 20,
            Duration.ofHours(1),
            ClickHouseSink.REMEMBERED);
    environment
        .fromSource(
            new DataGeneratorSource<>(
                number -> number, ROWS, RateLimiterStrategy.perSecond(rate), Types.LONG),
            WatermarkStrategy.noWatermarks(),
            "numbers")
        .uid("numbers")
        .map(new FailsTwice())
        .uid("fails")
        .map(
            number ->
                new TableRow(
                    Table.COUNTERS,
                    new Object[] {
                      1_767_225_600L + (number % 3) * 2_678_400, // three partitions
                      10_000,
                      "alpha",
                      0,
                      "numbers",
                      "",
                      number + 1,
                      0
                    }))
        .returns(TableRow.TYPE)
        .uid("rows")
        .transform("blocks", NativeBlock.TYPE, new RowBlocks())
        .uid("blocks")
        .transform("store", Types.VOID, new ClickHouseSink(config))
        .uid("store")
        .sinkTo(new DiscardingSink<>())
        .uid("end");
  }

  /** Fails after checkpoints have completed, twice in all. */
  private static final class FailsTwice extends RichMapFunction<Long, Long>
      implements CheckpointListener {
    private static final long serialVersionUID = 1;
    private static final AtomicInteger FAILURES = new AtomicInteger();
    private transient int completed;
    private transient int since;

    @Override
    public Long map(Long number) {
      if (completed >= 2 && ++since > 40 && FAILURES.getAndIncrement() < 2) {
        throw new IllegalStateException("a failure on purpose");
      }
      return number;
    }

    @Override
    public void notifyCheckpointComplete(long id) {
      completed++;
    }
  }

  @Test
  void everyRowIsStoredOnceWhateverFails() throws Exception {
    FailsTwice.FAILURES.set(0);
    Fate[] fates = {
      Fate.STORED, Fate.STORED_THEN_ERROR, Fate.STORED, Fate.BUSY, Fate.STORED_THEN_CUT, Fate.STORED
    };
    try (FakeClickHouse clickhouse = new FakeClickHouse(n -> fates[n % fates.length])) {
      StreamExecutionEnvironment environment = environment();
      build(environment, clickhouse.url(), 3_000);
      environment.execute();
      assertTrue(FailsTwice.FAILURES.get() >= 2, "the job has failed");
      assertTrue(clickhouse.repeats() > 0, "a token came again, as the acknowledgement was lost");
      assertEquals("", clickhouse.problem());
      List<Long> stored =
          clickhouse.rows().stream()
              .map(row -> Long.parseLong(row.get("packets")))
              .sorted()
              .toList();
      assertEquals(LongStream.rangeClosed(1, ROWS).boxed().toList(), stored);
    }
  }

  @Test
  void aTableThatIsNotThereEndsTheJobAtOnce() throws Exception {
    FailsTwice.FAILURES.set(2);
    try (FakeClickHouse clickhouse = new FakeClickHouse(n -> Fate.NO_TABLE)) {
      StreamExecutionEnvironment environment = environment();
      build(environment, clickhouse.url(), 1_000);
      Throwable failure = assertThrows(Exception.class, environment::execute);
      String text = "";
      for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
        text = cause.toString();
      }
      assertTrue(text.contains("no such table"), text);
      assertTrue(
          clickhouse.posts().size() <= 2,
          "one for each subtask, and no restart: " + JobStatus.FAILED);
    }
  }
}
