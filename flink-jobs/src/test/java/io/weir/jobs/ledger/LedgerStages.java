package io.weir.jobs.ledger;

import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.LedgerEvent;
import io.weir.jobs.table.TableRow;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.functions.util.ListCollector;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;

/** The ledger's operator, for tests outside its package. */
public final class LedgerStages {
  private static final long EPOCH = 1_767_225_600_000_000L;

  private LedgerStages() {}

  public static OneInputStreamOperator<LedgerEvent, TableRow> operator() {
    return new KeyedProcessOperator<>(new LedgerFunction(Duration.ofSeconds(20), false));
  }

  public static List<LedgerEvent> enrolled(Enrolment enrolment) {
    List<LedgerEvent> events = new ArrayList<>();
    LedgerEvent.enrolled(enrolment, new ListCollector<>(events));
    return events;
  }

  /**
   * An event of worker 0 of the probe alpha, of an interval of 10 s; its offset is its sequence.
   */
  static LedgerEvent event(
      LedgerEvent.Kind kind, long sequence, long start, long appended, long packets, byte[] body) {
    return event(kind, 0, EPOCH, sequence, start, appended, packets, body);
  }

  /** The same event of another worker and epoch. */
  static LedgerEvent event(
      LedgerEvent.Kind kind,
      int worker,
      long epoch,
      long sequence,
      long start,
      long appended,
      long packets,
      byte[] body) {
    return new LedgerEvent(
        kind,
        "alpha",
        worker,
        epoch,
        sequence,
        start,
        10_000,
        sequence,
        appended,
        packets > 0 ? 1 : 0,
        packets,
        packets * 100,
        body);
  }
}
