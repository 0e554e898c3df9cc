package io.weir.jobs;

import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.KeyedOneInputStreamOperatorTestHarness;
import org.apache.flink.streaming.util.OneInputStreamOperatorTestHarness;
import org.apache.flink.util.OutputTag;
import org.apache.flink.util.function.SupplierWithException;

/**
 * One operator of a job in Flink's test harness, which can be stopped and started again from its
 * state at any moment.
 */
public final class Stage<I, O> implements AutoCloseable {
  private final SupplierWithException<OneInputStreamOperatorTestHarness<I, O>, Exception> factory;
  private OneInputStreamOperatorTestHarness<I, O> harness;
  private long checkpoint;
  private long now;

  private Stage(SupplierWithException<OneInputStreamOperatorTestHarness<I, O>, Exception> factory)
      throws Exception {
    this.factory = factory;
    harness = factory.get();
    harness.open();
  }

  public static <I, O> Stage<I, O> of(
      SupplierWithException<OneInputStreamOperator<I, O>, Exception> operator,
      TypeInformation<O> type)
      throws Exception {
    return new Stage<>(
        () -> {
          OneInputStreamOperatorTestHarness<I, O> harness =
              new OneInputStreamOperatorTestHarness<>(operator.get());
          harness.setup(type.createSerializer(harness.getExecutionConfig().getSerializerConfig()));
          return harness;
        });
  }

  public static <K, I, O> Stage<I, O> keyed(
      SupplierWithException<OneInputStreamOperator<I, O>, Exception> operator,
      KeySelector<I, K> key,
      TypeInformation<K> keyType,
      TypeInformation<O> type)
      throws Exception {
    return new Stage<>(
        () -> {
          OneInputStreamOperatorTestHarness<I, O> harness =
              new KeyedOneInputStreamOperatorTestHarness<>(operator.get(), key, keyType);
          harness.setup(type.createSerializer(harness.getExecutionConfig().getSerializerConfig()));
          return harness;
        });
  }

  /** Gives one element; returns what comes out. */
  public List<O> give(I element) throws Exception {
    harness.processElement(new StreamRecord<>(element));
    return taken();
  }

  /** Sets the clock; returns what timers put out. */
  public List<O> time(long ms) throws Exception {
    now = ms;
    harness.setProcessingTime(ms);
    return taken();
  }

  /** What a barrier drives out. */
  public List<O> barrier() throws Exception {
    harness.prepareSnapshotPreBarrier(checkpoint + 1);
    return taken();
  }

  /** Takes a snapshot, throws the operator away and starts another from the snapshot. */
  public void restart() throws Exception {
    OperatorSubtaskState state = harness.snapshot(++checkpoint, now);
    harness.close();
    harness = factory.get();
    harness.setProcessingTime(now);
    harness.initializeState(state);
    harness.open();
  }

  /** What has come out aside since the last call. */
  public <T> List<T> aside(OutputTag<T> tag) {
    List<T> elements = new ArrayList<>();
    Queue<StreamRecord<T>> queue = harness.getSideOutput(tag);
    while (queue != null && !queue.isEmpty()) {
      elements.add(queue.poll().getValue());
    }
    return elements;
  }

  @SuppressWarnings("unchecked")
  private List<O> taken() {
    List<O> elements = new ArrayList<>();
    for (Object output : harness.getOutput()) {
      if (output instanceof StreamRecord<?> record) {
        elements.add((O) record.getValue());
      }
    }
    harness.getOutput().clear();
    return elements;
  }

  @Override
  public void close() throws Exception {
    harness.close();
  }
}
