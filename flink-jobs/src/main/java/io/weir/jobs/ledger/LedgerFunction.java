package io.weir.jobs.ledger;

import io.weir.jobs.sink.TableRow;
import io.weir.jobs.source.Enrolment;
import io.weir.jobs.source.RawMessage;
import java.nio.ByteBuffer;
import java.time.Duration;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * The ledger's part of the job {@code ingest}: from what came, and what should have, to rows of
 * {@code ledger}.
 */
public final class LedgerFunction extends KeyedProcessFunction<String, LedgerEvent, TableRow> {
  private static final long serialVersionUID = 1;

  private final long graceMs;
  private final boolean fromLatest;
  private transient ValueState<ProbeLedger> state;

  /**
   * Makes the function.
   *
   * @param grace how long after its end an interval may still close
   * @param fromLatest a partition of which nothing was read is read from its end
   */
  public LedgerFunction(Duration grace, boolean fromLatest) {
    graceMs = grace.toMillis();
    this.fromLatest = fromLatest;
  }

  /** From events and the list of probes to rows of {@code ledger}. */
  public static DataStream<TableRow> rows(
      DataStream<LedgerEvent> events,
      DataStream<Enrolment> enrolments,
      Duration grace,
      boolean fromLatest) {
    DataStream<LedgerEvent> enrolled =
        enrolments
            .flatMap(LedgerFunction::enrolled)
            .returns(LedgerEvent.TYPE)
            .name("ledger-enrolled")
            .uid("ledger-enrolled");
    return events
        .union(enrolled)
        .keyBy(LedgerEvent::probe, Types.STRING)
        .process(new LedgerFunction(grace, fromLatest))
        .returns(TableRow.TYPE)
        .name("ledger")
        .uid("ledger");
  }

  @Override
  public void open(OpenContext context) {
    state =
        getRuntimeContext()
            .getState(new ValueStateDescriptor<>("ledger", new ProbeLedger.Serializer()));
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

  /** One event for each probe; the body is begin and end of each partition. */
  public static void enrolled(Enrolment enrolment, Collector<LedgerEvent> out) {
    for (Enrolment.Probe probe : enrolment.probes()) {
      ByteBuffer body = ByteBuffer.allocate(probe.begin().length * 16);
      for (int i = 0; i < probe.begin().length; i++) {
        body.putLong(probe.begin()[i]).putLong(probe.end()[i]);
      }
      out.collect(
          new LedgerEvent(
              LedgerEvent.Kind.ENROLMENT,
              probe.name(),
              0,
              0,
              0,
              enrolment.at(),
              0,
              LedgerEvent.NO_OFFSET,
              RawMessage.NO_TIME,
              0,
              0,
              0,
              body.array()));
    }
  }

  /** The numbers in the body of an {@link LedgerEvent.Kind#ENROLMENT}. */
  public static long[] offsets(byte[] body) {
    long[] offsets = new long[body.length / 8];
    ByteBuffer.wrap(body).asLongBuffer().get(offsets);
    return offsets;
  }
}
