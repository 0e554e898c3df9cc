package io.weir.jobs.ledger;

import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.LedgerEvent;
import io.weir.jobs.serde.FieldSerializer;
import io.weir.jobs.table.TableRow;
import java.time.Duration;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * The ledger's part of the job {@code ingest}: compares received with expected messages, and writes
 * rows of {@code ledger}.
 */
public final class LedgerFunction extends KeyedProcessFunction<String, LedgerEvent, TableRow> {
  private static final long serialVersionUID = 1;

  private final long graceMs;
  private final boolean fromLatest;
  private transient ValueState<ProbeLedger> state;

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
    state =
        getRuntimeContext()
            .getState(
                new ValueStateDescriptor<>("ledger", new FieldSerializer<>(ProbeLedger.class)));
  }

  @Override
  public void processElement(LedgerEvent event, Context context, Collector<TableRow> out)
      throws Exception {
    ProbeLedger ledger = state.value();
    if (ledger == null) {
      ledger = new ProbeLedger();
    }
    long now = context.timerService().currentProcessingTime();
    ledger.accept(event, now, graceMs, fromLatest, out::collect);
    state.update(ledger);
  }
}
