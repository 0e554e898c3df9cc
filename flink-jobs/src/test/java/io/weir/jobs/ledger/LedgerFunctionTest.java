package io.weir.jobs.ledger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.Stage;
import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.LedgerEvent;
import io.weir.jobs.message.Retired;
import io.weir.jobs.table.Table;
import io.weir.jobs.table.TableRow;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The ledger of a probe that is removed, and of one that Kafka cannot list for a while. */
class LedgerFunctionTest {
  private static final long BASE = 1_767_225_600_000L;

  private final List<TableRow> rows = new ArrayList<>();
  private Stage<LedgerEvent, TableRow> ledger;

  @BeforeEach
  void start() throws Exception {
    ledger = Stage.keyed(LedgerStages::operator, LedgerEvent::probe, Types.STRING, TableRow.TYPE);
  }

  @AfterEach
  void stop() throws Exception {
    ledger.close();
  }

  /** Kafka lists the probe every 5 s, whose partition ends at this offset. */
  private void lists(long from, long to, long end) throws Exception {
    for (long at = from; at < to; at += 5_000) {
      rows.addAll(ledger.time(at));
      Enrolment.Probe probe = new Enrolment.Probe("alpha", new long[1], new long[] {end});
      rows.addAll(ledger.giveAll(LedgerStages.enrolled(new Enrolment(at, List.of(probe)))));
    }
  }

  private void batch(long sequence, long start, long at) throws Exception {
    rows.addAll(ledger.time(at));
    rows.addAll(
        ledger.give(
            LedgerStages.event(LedgerEvent.Kind.BATCH, sequence, start, at, 5, new byte[0])));
  }

  /** Each row's interval (s after the start), state, version and packets received. */
  private List<String> said() {
    List<String> said = new ArrayList<>();
    for (TableRow row : rows) {
      said.add(
          "%d %s %s %s"
              .formatted(
                  (long) row.get("ts") - BASE / 1000,
                  row.get("state"),
                  row.get("version"),
                  row.get("received_packets")));
    }
    rows.clear();
    return said;
  }

  @Test
  void theLastIntervalOfAProbeThatWasRemovedHasARow() throws Exception {
    lists(BASE, BASE + 4_000, 0);
    batch(0, BASE, BASE + 4_000);
    lists(BASE + 5_000, BASE + 10_000, 1);
    assertEquals(List.of(), said());
    long removed = BASE + 5_000 + Retired.AFTER_MS;
    rows.addAll(ledger.time(removed - 1));
    assertEquals(List.of(), said());
    rows.addAll(ledger.time(removed));
    assertEquals(List.of("0 " + LedgerState.CLOSING_MISSING.number() + " 1 5"), said());
    rows.addAll(ledger.time(removed + 4 * Retired.AFTER_MS));
    assertEquals(List.of(), said());
    assertTrue(ledger.stateEntries() > 0);
    rows.addAll(ledger.time(removed + LedgerFunction.FORGET_MS + Retired.AFTER_MS));
    assertEquals(0, ledger.stateEntries());
    assertEquals(List.of(), said());
  }

  /** By a clock that is ahead, the last list is old. */
  @Test
  void aLeapOfTheClockForgetsNoProbe() throws Exception {
    lists(BASE, BASE + 4_000, 0);
    batch(0, BASE, BASE + 4_000);
    lists(BASE + 5_000, BASE + 10_000, 1);
    long leap = BASE + 3_650L * 86_400_000;
    rows.addAll(ledger.time(leap));
    rows.addAll(ledger.time(leap + Retired.AFTER_MS - 1));
    assertEquals(List.of(), said());
    assertTrue(ledger.stateEntries() > 0);
    rows.addAll(ledger.time(leap + Retired.AFTER_MS));
    assertEquals(List.of("0 " + LedgerState.CLOSING_MISSING.number() + " 1 5"), said());
  }

  @Test
  void anOutageOfKafkaForgetsNoVersion() throws Exception {
    batch(0, BASE, BASE + 4_000);
    lists(BASE + 5_000, BASE + 60_000, 1);
    assertEquals(
        List.of("0 " + LedgerState.CLOSING_MISSING.number() + " 1 5"), said().subList(0, 1));
    long back = BASE + 29L * 86_400_000;
    rows.addAll(ledger.time(back));
    rows.clear();
    batch(1, BASE, back + 1_000);
    lists(back + 2_000, back + 40_000, 2);
    assertTrue(said().contains("0 " + LedgerState.CLOSING_MISSING.number() + " 2 10"));
  }

  /** Its topic's offsets begin with 0 again. */
  @Test
  void aProbeThatIsEnrolledAgainMissedNothingMeanwhile() throws Exception {
    batch(999, BASE, BASE + 4_000);
    lists(BASE + 5_000, BASE + 60_000, 1_000);
    said();
    long again = BASE + 600_000;
    lists(again, again + 5_000, 3);
    batch(0, again, again + 6_000);
    lists(again + 10_000, again + 60_000, 3);
    assertEquals(List.of(), said(), "two messages are not read yet");
    batch(2, again + 10_000, again + 60_000);
    lists(again + 60_000, again + 65_000, 3);
    for (TableRow row : rows) {
      assertTrue((long) row.cells()[Table.LEDGER.index("ts")] >= again / 1000, row::toString);
    }
    assertEquals(
        "0 " + LedgerState.CLOSING_MISSING.number() + " 1 5", shifted(said().get(0), again));
  }

  private static String shifted(String said, long by) {
    String[] words = said.split(" ", 2);
    return Long.parseLong(words[0]) - (by - BASE) / 1000 + " " + words[1];
  }
}
