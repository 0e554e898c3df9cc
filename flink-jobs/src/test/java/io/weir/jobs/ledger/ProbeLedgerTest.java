package io.weir.jobs.ledger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.sink.Table;
import io.weir.jobs.sink.TableRow;
import io.weir.jobs.source.Enrolment;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class ProbeLedgerTest {
  private static final long BASE = 1_767_225_600_000L;
  private static final long GRACE = 20_000;

  private static LedgerEvent ends(long at, long end) {
    Enrolment.Probe probe = new Enrolment.Probe("alpha", new long[1], new long[] {end});
    return LedgerStages.enrolled(new Enrolment(at, List.of(probe))).get(0);
  }

  private static List<TableRow> looks(boolean moving) throws Exception {
    ProbeLedger ledger = new ProbeLedger();
    List<TableRow> rows = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      long at = BASE + 5_000L * i;
      ledger.accept(ends(at, moving ? 100 + i : 100), at, GRACE, false, rows::add);
      ledger = new ProbeLedger.Serializer().copy(ledger); // as Flink does after a checkpoint
    }
    return rows;
  }

  @Test
  void aPartitionThatIsNotReadAndDoesNotGrowIsTakenAsRead() throws Exception {
    List<TableRow> rows = looks(false);
    assertTrue(rows.size() >= 5, rows::toString);
    for (TableRow row : rows) {
      assertEquals(LedgerState.MISSING.number(), row.cells()[Table.LEDGER.index("state")]);
    }
  }

  @Test
  void aPartitionThatGrowsIsWaitedFor() throws Exception {
    assertEquals(List.of(), looks(true));
  }

  @Test
  void unfinishedIntervalsOfAClockThatIsAheadAreBounded() {
    WorkerLedger worker = new WorkerLedger();
    int count = WorkerLedger.MAX_UNFINISHED + 1_000;
    for (int i = 0; i < count; i++) {
      long start = BASE + 86_400_000 + 20_000L * i;
      LedgerEvent event =
          new LedgerEvent(
              LedgerEvent.Kind.BATCH,
              "alpha",
              0,
              1,
              i,
              start,
              10_000,
              i,
              BASE,
              1,
              1,
              100,
              new byte[0]);
      worker.batch(event, BASE + i);
    }
    for (int look = 0; look < 2; look++) {
      for (long start : worker.changes(BASE + count, GRACE, true)) {
        worker.written(start);
      }
      worker.forget(BASE + count, 1_000);
    }
    assertTrue(worker.intervals.size() <= 2 * WorkerLedger.MAX_UNFINISHED);
    assertEquals(1_000, worker.intervals.values().stream().filter(i -> i.version == 1).count());
  }
}
