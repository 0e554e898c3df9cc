package io.weir.jobs.message;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class RunOrderTest {
  private static final long BASE_MS = 1_767_225_600_000L;
  private static final long HOUR_MS = 3_600_000;

  /** Epoch of a run that begins at this time by a right clock. */
  private static long epoch(long ms) {
    return 1000 * ms;
  }

  /** Two hours ahead. */
  private static final long AHEAD = epoch(BASE_MS + 2 * HOUR_MS);

  private static final long RIGHT = epoch(BASE_MS);

  private static boolean isNewer(long epoch, long appended, long known, long heard) {
    return RunOrder.isNewer(epoch, appended - 1_000, appended, known, heard);
  }

  @Test
  void aHigherEpochIsNewerAtOnce() {
    assertTrue(isNewer(RIGHT, BASE_MS, 0, 0), "the first run");
    assertTrue(isNewer(AHEAD, BASE_MS, RIGHT, BASE_MS));
    assertFalse(isNewer(RIGHT, BASE_MS + HOUR_MS, RIGHT, BASE_MS), "itself");
  }

  @Test
  void aLowerEpochIsNewerOnceTheKnownRunIsSilent() {
    long silent = BASE_MS + RunOrder.SILENT_MS;
    assertFalse(isNewer(RIGHT, silent - 1, AHEAD, BASE_MS));
    assertTrue(isNewer(RIGHT, silent, AHEAD, BASE_MS));
  }

  @Test
  void aLowerEpochIsNewerAtOnceAfterAnOrderlyStop() {
    long heard = RunOrder.heard(BASE_MS - 10_000, BASE_MS, true);
    assertTrue(isNewer(RIGHT, BASE_MS + 1, AHEAD, heard));
    long repeated = RunOrder.heard(heard, BASE_MS + 500, false);
    assertTrue(isNewer(RIGHT, BASE_MS + 501, AHEAD, repeated), "a late batch takes nothing back");
    assertEquals(BASE_MS + 500, Math.abs(repeated));
  }

  @Test
  void aLowerEpochIsNewerAtOnceIfItIsATimeAfterTheKnownRun() {
    long came = BASE_MS + 12_000;
    assertTrue(isNewer(epoch(BASE_MS + 1), came, AHEAD, BASE_MS));
    assertTrue(isNewer(epoch(came), came, AHEAD, BASE_MS));
    assertFalse(isNewer(epoch(came + 1), came, AHEAD, BASE_MS), "of a clock that is ahead, too");
  }

  @Test
  void leftoversOfAHigherEpochAreNoNewRun() {
    long before = RunOrder.before(RIGHT, AHEAD, 0);
    assertEquals(AHEAD, before);
    long heard = RunOrder.heard(0, BASE_MS, false);
    long silent = BASE_MS + RunOrder.SILENT_MS;
    assertFalse(RunOrder.isNewer(AHEAD, silent, silent - 1, RIGHT, heard, before));
    assertFalse(RunOrder.isNewer(AHEAD, BASE_MS, silent, RIGHT, heard, before), "an old interval");
    assertTrue(RunOrder.isNewer(AHEAD, BASE_MS + 1, silent, RIGHT, heard, before));
    long stopped = RunOrder.heard(0, BASE_MS, true);
    assertFalse(RunOrder.isNewer(AHEAD, BASE_MS + 1, silent - 1, RIGHT, stopped, before));
    assertTrue(RunOrder.isNewer(AHEAD + 1, BASE_MS, BASE_MS, RIGHT, heard, before), "another run");
  }

  @Test
  void theHigherEpochIsKnownUntilAHigherOneComes() {
    assertEquals(AHEAD, RunOrder.before(RIGHT + 1, RIGHT, AHEAD));
    assertEquals(0, RunOrder.before(AHEAD, RIGHT, AHEAD));
    assertEquals(0, RunOrder.before(AHEAD + 1, RIGHT, AHEAD));
  }

  @Test
  void leftoversAreNoNewRunHoweverLongTheSilence() {
    long ended = RunOrder.heard(0, BASE_MS, true);
    long came = BASE_MS + 10 * HOUR_MS;
    long until = came - RunOrder.LATE_MS;
    assertFalse(RunOrder.isNewer(RIGHT, until - 1, came, AHEAD, BASE_MS));
    assertFalse(RunOrder.isNewer(RIGHT, until - 1, came, AHEAD, ended));
    assertTrue(RunOrder.isNewer(RIGHT, until, came, AHEAD, ended));
  }

  @Test
  void aStateWithoutTheTimeCountsAsSilent() {
    assertTrue(isNewer(RIGHT, BASE_MS, AHEAD, 0));
  }

  @Test
  void theNewestTimeIsKept() {
    long heard = RunOrder.heard(RunOrder.heard(0, BASE_MS + 5, false), BASE_MS, false);
    assertEquals(BASE_MS + 5, heard);
  }
}
