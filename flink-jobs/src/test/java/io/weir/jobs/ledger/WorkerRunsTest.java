package io.weir.jobs.ledger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.weir.jobs.Stage;
import io.weir.jobs.message.LedgerEvent;
import io.weir.jobs.table.TableRow;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.flink.api.common.typeinfo.Types;
import org.junit.jupiter.api.Test;

/** The ledger of a worker whose runs have epochs that a wrong clock made. */
class WorkerRunsTest {
  private static final int AHEAD = RunEvents.AHEAD;
  private static final int CLOSED = LedgerState.CLOSED.number();
  private static final int MISSING = LedgerState.MISSING.number();
  private static final int STOPPED = LedgerState.STOPPED.number();

  private final RunEvents events = new RunEvents();

  /** The newest row of each interval, by its start (s); the job restarts every so many events. */
  private Map<Integer, TableRow> rows(int until, int restartEvery) throws Exception {
    Map<Integer, TableRow> newest = new TreeMap<>();
    try (Stage<LedgerEvent, TableRow> ledger =
        Stage.keyed(LedgerStages::operator, LedgerEvent::probe, Types.STRING, TableRow.TYPE)) {
      for (TableRow row : events.play(until, ledger, restartEvery)) {
        newest.put((int) ((long) row.get("ts") - RunEvents.BASE_MS / 1000), row);
      }
    }
    return newest;
  }

  /** The states of all intervals of a time. */
  private Set<Integer> states(int from, int to) throws Exception {
    Set<Integer> states = new TreeSet<>();
    for (int restartEvery : new int[] {Integer.MAX_VALUE, 7}) {
      Map<Integer, TableRow> rows = rows(to + 100, restartEvery);
      for (int start = from; start < to; start += 10) {
        states.add((Integer) rows.get(start).get("state"));
      }
    }
    return states;
  }

  /** The agent keeps its state, so that its epochs stay ahead once its clock was. */
  @Test
  void deathIsNoOrderlyStopIfTheEpochIsAhead() throws Exception {
    events.run(1).sends(0, 290).interval(290, 290, true);
    events.run(AHEAD).sends(300, 600);
    assertEquals(Set.of(CLOSED), states(0, 600));
    assertEquals(Set.of(MISSING), states(600, 3_000));
  }

  @Test
  void deathIsNoOrderlyStopIfTheEpochIsLowerThanTheOneBefore() throws Exception {
    events.lowerEpoch(false);
    assertEquals(Set.of(MISSING), states(600, 3_000));
  }

  /** The intervals of its first run are ahead, too. */
  @Test
  void deathIsNoOrderlyStopEvenInTheTimeThatTheClockOnceSaid() throws Exception {
    RunEvents.Run first = events.run(AHEAD);
    for (int start = 0; start < 300; start += 10) {
      first.interval(AHEAD + start, start, start == 290);
    }
    events.run(301).sends(300, 600);
    assertEquals(Set.of(MISSING), states(600, AHEAD));
    assertEquals(Set.of(CLOSED), states(AHEAD, AHEAD + 300));
    assertEquals(Set.of(MISSING), states(AHEAD + 300, AHEAD + 600));
  }

  @Test
  void anOrderlyStopIsOneIfTheEpochIsLowerThanTheOneBefore() throws Exception {
    events.lowerEpoch(true);
    assertEquals(Set.of(STOPPED), states(600, 3_000));
  }

  /** For a minute its messages count as leftovers. */
  @Test
  void anOrderlyStopIsOneIfTheRunBeforeWasKilled() throws Exception {
    events.run(AHEAD).sends(0, 300);
    events.run(301).sends(300, 590).interval(590, 590, true);
    assertEquals(Set.of(STOPPED), states(600, 3_000));
  }

  @Test
  void leftoversOfAnOlderRunTakeNoStopBack() throws Exception {
    events.leftovers();
    assertEquals(Set.of(STOPPED), states(600, 6_000));
  }

  /** Another run may come back once it was taken for over: Kafka was away from it, say. */
  @Test
  void aRunThatComesBackIsTheNewestAgain() throws Exception {
    RunEvents.Run first = events.run(AHEAD).sends(0, 300);
    events.run(1).sends(300, 400);
    first.sends(400, 500).interval(500, 500, true);
    assertEquals(Set.of(STOPPED), states(510, 1_000));
  }

  /** An agent that fails at once with its clock ahead, more often than the ledger keeps runs. */
  @Test
  void aLowerEpochIsNotTheFirstToBeForgotten() throws Exception {
    for (int run = 0; run < 2 * WorkerLedger.MAX_RUNS; run++) {
      events.run(AHEAD + run).interval(10 * run, 10 * run, true);
    }
    int from = 20 * WorkerLedger.MAX_RUNS;
    events.run(from).sends(from, from + 200);
    assertEquals(Set.of(CLOSED), states(from, from + 200));
  }

  @Test
  void theRowOfAnIntervalNamesTheRunThatBeganLast() throws Exception {
    events.run(AHEAD).sends(0, 20).batch(20, 22).close(20, 24, true);
    events.run(25).batch(20, 26).close(20, 30, false).sends(30, 100);
    TableRow row = rows(120, Integer.MAX_VALUE).get(20);
    assertEquals((RunEvents.BASE_MS + 25_000) * 1000, row.get("epoch"));
    assertEquals(2, row.get("epochs"));
    assertEquals(CLOSED, row.get("state"));
  }

  /** The first run's clock jumps ahead while it runs; a batch of the second one comes late. */
  @Test
  void anEmptyIntervalBelongsToTheNewestRunThatReachedIt() throws Exception {
    RunEvents.Run first = events.run(1).sends(0, 100);
    for (int start = 100; start < 200; start += 10) {
      first.interval(AHEAD + start, start, false);
    }
    RunEvents.Run second = events.run(201);
    for (int start = 200; start < 400; start += 10) {
      second.closeEmpty(start, start + 11);
    }
    second.batch(250, 445).batch(400, 446).closeWithLate(400, 250, 451);
    TableRow row = rows(500, Integer.MAX_VALUE).get(250);
    assertEquals(1, row.get("epochs"));
    assertEquals(CLOSED, row.get("state"));
  }

  /** A batch comes late, and the agent closed its interval: that closing record is lost. */
  @Test
  void aClosingRecordIsMissingEvenIfTheIntervalIsOverByTheEpoch() throws Exception {
    RunEvents.Run run = events.run(AHEAD).sends(0, 50).batch(50, 55).lose();
    run.sends(60, 70).batch(50, 75).batch(70, 76).closeWithLate(70, 50, 81).sends(80, 200);
    Map<Integer, TableRow> rows = rows(300, Integer.MAX_VALUE);
    assertEquals(LedgerState.CLOSING_MISSING.number(), rows.get(50).get("state"));
    assertEquals(CLOSED, rows.get(60).get("state"));
  }

  @Test
  void leftoversOfARunWithAHigherEpochAreNoStop() throws Exception {
    RunEvents.Run first = events.run(AHEAD).sends(0, 290);
    events.run(302).sends(300, 310);
    first.interval(290, 341, true);
    assertEquals(Set.of(MISSING), states(310, 1_000));
  }

  /** The clock jumps ahead; the first closing record after it is lost. */
  @Test
  void noClosingRecordIsMissingOfIntervalsOverWhichTheClockJumped() throws Exception {
    RunEvents.Run run = events.run(1).sends(0, 50).batch(AHEAD, 55).lose();
    run.interval(AHEAD + 10, 60, false);
    Map<Integer, TableRow> rows = rows(300, Integer.MAX_VALUE);
    assertFalse(rows.containsKey(AHEAD - 10));
    assertEquals(LedgerState.CLOSING_MISSING.number(), rows.get(AHEAD).get("state"));
    assertEquals(CLOSED, rows.get(AHEAD + 10).get("state"));
  }
}
