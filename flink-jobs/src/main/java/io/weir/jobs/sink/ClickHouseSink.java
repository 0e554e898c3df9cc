package io.weir.jobs.sink;

import java.io.Serializable;
import java.time.Duration;
import org.apache.flink.streaming.api.operators.AbstractStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.ChainingStrategy;
import org.apache.flink.streaming.api.operators.OneInputStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;

/** Makes the {@link ClickHouseSinkOperator} of each subtask. */
public final class ClickHouseSink extends AbstractStreamOperatorFactory<Void>
    implements OneInputStreamOperatorFactory<NativeBlock, Void> {
  private static final long serialVersionUID = 1;

  /**
   * How the sink works.
   *
   * @param endpoint where rows go
   * @param directory for files, on the checkpoint storage; files in it that no checkpoint lists are
   *     removed
   * @param maxPending octets of files not yet in ClickHouse that a subtask may have before it holds
   *     its input
   * @param retryFor for how long ClickHouse remembers a block: one that may have been inserted is
   *     not tried again after it
   * @param remembered how many later blocks of its table ClickHouse remembers a block through,
   *     likewise
   */
  public record Config(
      ClickHouse.Endpoint endpoint,
      String directory,
      long maxPending,
      Duration retryFor,
      int remembered)
      implements Serializable {}

  /**
   * Tables remember 10,000 blocks, in which each insert is one, and two in the table that two views
   * fill ({@code non_replicated_deduplication_window}); the rest is for what others insert while an
   * answer is waited for.
   */
  public static final int REMEMBERED = 4_000;

  private final Config config;

  public ClickHouseSink(Config config) {
    this.config = config;
    setChainingStrategy(ChainingStrategy.ALWAYS);
  }

  @Override
  @SuppressWarnings({"unchecked", "TypeParameterUnusedInFormals"})
  public <T extends StreamOperator<Void>> T createStreamOperator(
      StreamOperatorParameters<Void> parameters) {
    return (T)
        new ClickHouseSinkOperator(
            parameters, config, new ClickHouse(config.endpoint()), new BackgroundThread());
  }

  @Override
  @SuppressWarnings("rawtypes")
  public Class<? extends StreamOperator> getStreamOperatorClass(ClassLoader loader) {
    return ClickHouseSinkOperator.class;
  }
}
