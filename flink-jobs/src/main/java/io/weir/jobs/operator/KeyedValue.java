package io.weir.jobs.operator;

import java.io.IOException;
import java.util.function.Supplier;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeutils.TypeSerializer;

/** The value that a function keeps for each key, and creates when a key first occurs. */
public final class KeyedValue<S> {
  private final ValueState<S> state;

  /**
   * Registers the value in the function's state.
   *
   * @param name of the state
   */
  public KeyedValue(RuntimeContext runtime, String name, TypeSerializer<S> serializer) {
    state = runtime.getState(new ValueStateDescriptor<>(name, serializer));
  }

  /** The value; if there is none, keeps and returns {@code first}. */
  public S get(Supplier<S> first) throws IOException {
    S value = get();
    if (value == null) {
      value = first.get();
      keep(value);
    }
    return value;
  }

  /** The value, null if there is none. */
  public S get() throws IOException {
    return state.value();
  }

  /** Keeps a new or changed value. */
  public void keep(S value) throws IOException {
    state.update(value);
  }

  /** Forgets the value. */
  public void forget() {
    state.clear();
  }
}
