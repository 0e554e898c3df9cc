package io.weir.jobs.ledger;

import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.EnrolmentCheck;
import io.weir.jobs.message.LedgerEvent;
import io.weir.jobs.operator.KeyedValue;
import io.weir.jobs.serde.FieldSerializer;
import io.weir.jobs.table.TableRow;
import java.time.Duration;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * The ledger's part of the job {@code ingest}: compares received with expected messages, and writes
 * rows of {@code ledger}. When Kafka has not listed a probe for {@link
 * io.weir.jobs.message.Retired#AFTER_MS}, the probe has been removed, or Kafka is away: the job
 * writes the rows of the intervals that were still open. After {@link #FORGET_MS} it forgets the
 * probe.
 */
public final class LedgerFunction extends KeyedProcessFunction<String, LedgerEvent, TableRow> {
  private static final long serialVersionUID = 1;

  /**
   * How long after Kafka last listed a probe its ledger is kept: longer than any outage of Kafka,
   * after which rows of the same intervals would begin with version 1 again.
   */
  static final long FORGET_MS = ProbeLedger.KEEP_DECLARED_MS;

  private final long graceMs;
  private final boolean fromLatest;
  private transient KeyedValue<ProbeLedger> state;
  private transient EnrolmentCheck enrolled;

  /**
   * Creates the function.
   *
   * @param grace how long after its end an interval may still close
   * @param fromLatest whether an unread partition is read from its end
   */
  public LedgerFunction(Duration grace, boolean fromLatest) {
    graceMs = grace.toMillis();
    this.fromLatest = fromLatest;
  }

  /** Turns events and the list of probes into rows of {@code ledger}. */
  public static DataStream<TableRow> rows(
      DataStream<LedgerEvent> events,
      DataStream<Enrolment> enrolments,
      Duration grace,
      boolean fromLatest) {
    return LedgerEvent.byProbe(events, enrolments, "ledger")
        .process(new LedgerFunction(grace, fromLatest))
        .returns(TableRow.TYPE)
        .name("ledger")
        .uid("ledger");
  }

  @Override
  public void open(OpenContext context) {
    var runtime = getRuntimeContext();
    enrolled = new EnrolmentCheck(runtime);
    state = new KeyedValue<>(runtime, "ledger", new FieldSerializer<>(ProbeLedger.class));
  }

  @Override
  public void processElement(LedgerEvent event, Context context, Collector<TableRow> out)
      throws Exception {
    ProbeLedger ledger = state.get(ProbeLedger::new);
    long now = context.timerService().currentProcessingTime();
    ledger.accept(event, now, graceMs, fromLatest, out::collect);
    enrolled.again(context.timerService());
    state.keep(ledger);
  }

  @Override
  public void onTimer(long timestamp, OnTimerContext context, Collector<TableRow> out)
      throws Exception {
    ProbeLedger ledger = state.get();
    if (!enrolled.isRemoved(context.timerService(), ledger.heardAt())) {
      return;
    }
    long now = context.timerService().currentProcessingTime();
    ledger.end(context.getCurrentKey(), now, graceMs, out::collect);
    if (now - ledger.heardAt() >= FORGET_MS) {
      state.forget();
      return;
    }
    state.keep(ledger);
    enrolled.again(context.timerService());
  }
}
