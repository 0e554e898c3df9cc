package io.weir.jobs.sink;

import java.io.Serializable;
import java.time.Duration;
import org.apache.flink.streaming.api.operators.AbstractStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.ChainingStrategy;
import org.apache.flink.streaming.api.operators.OneInputStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;

/** Creates the {@link ClickHouseSinkOperator} of each subtask. */
public final class ClickHouseSink extends AbstractStreamOperatorFactory<Void>
    implements OneInputStreamOperatorFactory<NativeBlock, Void> {
  private static final long serialVersionUID = 1;

  /**
   * The settings of the sink.
   *
   * @param endpoint to which rows are sent
   * @param directory for files, on the checkpoint storage; the sink removes files in it that no
   *     checkpoint lists
   * @param maxPending octets of files not yet in ClickHouse that a subtask may have before it
   *     pauses its input
   * @param retryFor how long ClickHouse remembers a block: the sink does not retry a block that may
   *     have been inserted after this time
   * @param remembered number of later blocks of its table after which ClickHouse may forget a
   *     block: the sink does not retry it after these
   */
  public record Config(
      ClickHouse.Endpoint endpoint,
      String directory,
      long maxPending,
      Duration retryFor,
      int remembered)
      implements Serializable {}

  /**
   * Tables remember 10,000 blocks ({@code non_replicated_deduplication_window}). Each insert is one
   * block, or two in the table that two views fill; the rest is for blocks that others insert while
   * the sink waits for an answer.
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
