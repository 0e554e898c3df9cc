package io.weir.jobs.health;

import io.weir.jobs.alerts.AlertMessage;
import io.weir.jobs.message.Enrolment;
import io.weir.jobs.operator.KeyedValue;
import io.weir.jobs.operator.WakeUp;
import io.weir.jobs.serde.FieldSerializer;
import java.util.List;
import java.util.TreeMap;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.operators.StreamingRuntimeContext;
import org.apache.flink.util.Collector;

/**
 * Opens an alert when no checkpoint of the jobs has completed for {@link
 * CheckpointHealth#STALE_MS}, and closes it after the next one. Its one key belongs to no probe. A
 * checkpoint counts from the moment at which it was taken, which its own state holds: jobs that
 * restart from it send the same alert again.
 */
final class CheckpointFunction extends KeyedProcessFunction<Integer, Enrolment, AlertMessage>
    implements CheckpointedFunction, CheckpointListener {
  private static final long serialVersionUID = 1;

  /** Time between two checks. */
  static final long CHECK_MS = 10_000;

  /** How long the jobs may take for their first checkpoint after a restart. */
  static final long GRACE_MS = 60_000;

  private transient KeyedValue<CheckpointHealth> state;
  private transient WakeUp timer;
  private transient ListState<Long> kept;

  /** When the newest complete checkpoint was taken, ms. */
  private transient long newest;

  /** When each newer checkpoint was taken, by its id. */
  private transient TreeMap<Long, Long> taken;

  /** Turns the jobs' checkpoints into alerts; the list of probes starts its clock. */
  static DataStream<AlertMessage> alerts(DataStream<Enrolment> enrolments) {
    return enrolments
        .keyBy(enrolment -> 0, Types.INT)
        .process(new CheckpointFunction())
        .returns(AlertMessage.TYPE)
        .name("checkpoint-health")
        .uid("checkpoint-health");
  }

  @Override
  public void initializeState(FunctionInitializationContext context) throws Exception {
    kept =
        context
            .getOperatorStateStore()
            .getUnionListState(new ListStateDescriptor<>("taken", LongSerializer.INSTANCE));
    taken = new TreeMap<>();
    for (long at : kept.get()) {
      newest = Math.max(newest, at);
    }
  }

  @Override
  public void snapshotState(FunctionSnapshotContext context) throws Exception {
    taken.put(context.getCheckpointId(), now());
    kept.update(List.of(now()));
  }

  @Override
  public void open(OpenContext context) {
    var runtime = getRuntimeContext();
    state = new KeyedValue<>(runtime, "checkpoints", new FieldSerializer<>(CheckpointHealth.class));
    timer = new WakeUp(runtime);
    newest = newest == 0 ? timer.began() : newest;
  }

  private long now() {
    var runtime = (StreamingRuntimeContext) getRuntimeContext();
    return runtime.getProcessingTimeService().getCurrentProcessingTime();
  }

  @Override
  public void processElement(Enrolment enrolment, Context context, Collector<AlertMessage> out)
      throws Exception {
    timer.setNext(context.timerService(), context.timerService().currentProcessingTime(), CHECK_MS);
  }

  @Override
  public void onTimer(long timestamp, OnTimerContext context, Collector<AlertMessage> out)
      throws Exception {
    long now = timer.rang(context.timerService());
    CheckpointHealth health = state.get(CheckpointHealth::new);
    newest = Math.min(newest, now);
    if (now - timer.began() >= GRACE_MS || newest >= timer.began()) {
      health.check(newest, now, out::collect);
    }
    state.keep(health);
    timer.setNext(context.timerService(), now, CHECK_MS);
  }

  @Override
  public void notifyCheckpointComplete(long checkpoint) {
    var complete = taken.headMap(checkpoint, true);
    if (!complete.isEmpty()) {
      newest = complete.lastEntry().getValue();
      complete.clear();
    }
  }
}
