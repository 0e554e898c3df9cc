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
   * @param retryFor for how long an insert that may have been applied is tried again
   */
  public record Config(
      ClickHouse.Endpoint endpoint, String directory, long maxPending, Duration retryFor)
      implements Serializable {}

  private final Config config;

  public ClickHouseSink(Config config) {
    this.config = config;
    setChainingStrategy(ChainingStrategy.ALWAYS);
  }

  @Override
  @SuppressWarnings({"unchecked", "TypeParameterUnusedInFormals"})
  public <T extends StreamOperator<Void>> T createStreamOperator(
      StreamOperatorParameters<Void> parameters) {
    return (T) new ClickHouseSinkOperator(parameters, config, new ClickHouse(config.endpoint()));
  }

  @Override
  @SuppressWarnings("rawtypes")
  public Class<? extends StreamOperator> getStreamOperatorClass(ClassLoader loader) {
    return ClickHouseSinkOperator.class;
  }
}
