package io.weir.jobs.operator;

import io.weir.jobs.serde.WireType;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;

/** Names operators. */
public final class Named {
  private Named() {}

  /** Gives an operator its name, which is its uid as well, and its output type. */
  public static <T> SingleOutputStreamOperator<T> named(
      String name, WireType<T> type, SingleOutputStreamOperator<T> operator) {
    return operator.returns(type).name(name).uid(name);
  }
}
