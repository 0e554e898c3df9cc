package io.weir.jobs.message;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Times are ms after {@link #BASE_MS}; an epoch is the time of a run's start. */
class KnownRunTest {
  private static final long BASE_MS = 1_767_225_600_000L;
  private static final long SILENT = KnownRun.SILENT_MS;
  private static final long HOUR = 3_600_000;

  /** Epoch of a run that began while its clock was ahead. */
  private static final long AHEAD = 2 * HOUR;

  private static final long RIGHT = -10_000;

  private final KnownRun run = new KnownRun();

  private boolean note(long epoch, long end, long came, boolean last) {
    return run.note(1000 * (BASE_MS + epoch), BASE_MS + end, BASE_MS + came, last);
  }

  /** A message that comes a second after its interval. */
  private boolean comes(long epoch, long came) {
    return note(epoch, came - 1_000, came, false);
  }

  private boolean stops(long epoch, long came) {
    return note(epoch, came - 1_000, came, true);
  }

  @Test
  void aHigherEpochIsNewerAtOnce() {
    assertTrue(comes(RIGHT, 0), "the first run");
    assertTrue(comes(AHEAD, 0));
    assertFalse(comes(AHEAD, HOUR), "itself");
    assertEquals(1000 * (BASE_MS + AHEAD), run.epoch());
  }

  @Test
  void aLowerEpochIsNewerOnceTheKnownRunIsSilent() {
    comes(AHEAD, 0);
    assertFalse(comes(RIGHT, SILENT - 1));
    assertTrue(comes(RIGHT, SILENT));
  }

  @Test
  void aLowerEpochIsNewerAtOnceAfterAnOrderlyStop() {
    stops(AHEAD, 0);
    comes(AHEAD, 500);
    assertTrue(run.stopped(), "a late batch takes nothing back");
    assertTrue(note(RIGHT, 10_000, 501, false));
    assertFalse(run.stopped());
  }

  @Test
  void aLowerEpochIsNewerAtOnceIfItIsATimeAfterTheKnownRun() {
    comes(AHEAD, 0);
    assertFalse(comes(12_001, 12_000), "of a clock that is ahead, too");
    assertTrue(comes(12_000, 12_000));
    comes(AHEAD + 1, 20_000);
    assertFalse(comes(20_000, 25_000));
    assertTrue(comes(20_001, 25_000));
  }

  /** A batch that was delayed comes after the stop of the run that followed. */
  @Test
  void anIntervalThatTheKnownRunHasPassedBeginsNoRun() {
    stops(RIGHT + 1, 0);
    assertFalse(note(RIGHT, -1_000, SILENT, false));
    assertTrue(note(RIGHT, -999, SILENT, false), "it has not passed this one");
  }

  /** Its first messages were delayed until after its last ones were sent. */
  @Test
  void aRunWhoseMessagesComeAllAtOnceIsNewer() {
    note(AHEAD, -200_000, 0, true);
    assertFalse(note(RIGHT, -200_000, 1, false));
    assertTrue(note(RIGHT, -190_000, 1, false));
  }

  @Test
  void aRunFollowsOneWhoseIntervalsWereAhead() {
    note(AHEAD, AHEAD, 0, true);
    assertFalse(note(RIGHT, 0, 1_000, false));
    assertTrue(note(RIGHT, 1, 1_000, false));
    assertEquals(BASE_MS + 1, run.until());
  }

  @Test
  void leftoversAreNoNewRunHoweverLongTheSilence() {
    stops(AHEAD, 0);
    long came = 10 * HOUR;
    assertFalse(note(RIGHT, came - KnownRun.LATE_MS - 1, came, false));
    assertTrue(note(RIGHT, came - KnownRun.LATE_MS, came, false));
  }

  /** Leftovers of the first run come after the second one has ended: one, some at once, or late. */
  @ParameterizedTest
  @ValueSource(longs = {AHEAD, RIGHT - 1})
  void leftoversOfTheRunBeforeAreNoNewRun(long epoch) {
    stops(epoch, -30_000);
    note(RIGHT, 10_000, 0, true);
    assertTrue(run.isBefore(1000 * (BASE_MS + epoch)));
    assertFalse(note(epoch, 20_000, SILENT, false));
    assertFalse(note(epoch, 30_000, SILENT + 1, true));
    assertFalse(note(epoch, 60_000, SILENT + 2, true));
    assertFalse(note(epoch, 20_000, SILENT + 40_000, false));
    assertFalse(note(epoch, 60_000, SILENT + 80_000, false), "by chance");
    assertTrue(note(AHEAD + 1, 30_000, SILENT + 80_000, false), "another run");
  }

  @ParameterizedTest
  @ValueSource(longs = {AHEAD, RIGHT - 1})
  void aRunThatGoesOnReturns(long epoch) {
    stops(epoch, 0);
    note(RIGHT, 10_000, 1, true);
    assertFalse(comes(epoch, 10_000));
    assertFalse(comes(epoch, 20_000));
    assertFalse(comes(epoch, 30_000));
    assertTrue(comes(epoch, 40_000));
    assertFalse(comes(RIGHT, 50_000), "now it is the run before");
  }

  @Test
  void aRunReturnsOnlyWhenTheOtherOneIsOver() {
    comes(RIGHT, 0);
    comes(AHEAD, 1);
    for (long came = 10_000; came <= SILENT; came += 10_000) {
      assertFalse(comes(RIGHT, came));
    }
    assertTrue(comes(RIGHT, SILENT + 1));
  }

  @Test
  void someRunsBeforeAreKnown() {
    for (long epoch = 1; epoch <= KnownRun.BEFORE + 2; epoch++) {
      comes(epoch, epoch);
    }
    assertFalse(run.isBefore(1000 * (BASE_MS + 1)));
    assertTrue(run.isBefore(1000 * (BASE_MS + 2)));
  }

  /** The clock of the agent that lost its state is hours behind. */
  @Test
  void aRunFarBehindIsNewerIfItGoesOn() {
    stops(0, 10_000);
    long behind = 3 * HOUR;
    assertFalse(note(-behind, -behind, 20_000, false));
    assertFalse(note(-behind, -behind + 20_000, 40_000, false));
    assertFalse(note(-behind, -behind + 30_000, 50_000, false));
    assertTrue(note(-behind, -behind + 40_000, 60_000, false));
  }

  @Test
  void theNewestTimesAreKept() {
    note(AHEAD, 20_000, 5_000, false);
    note(AHEAD, 10_000, 4_000, false);
    assertEquals(BASE_MS + 20_000, run.until());
    assertFalse(comes(RIGHT, SILENT + 4_999));
  }

  @Test
  void ofTwoTheOneThatWasHeardLaterCounts() {
    KnownRun other = new KnownRun();
    other.note(1, BASE_MS + 30_000, BASE_MS, false);
    note(RIGHT, 20_000, 1, false);
    assertEquals(run, KnownRun.later(run, other));
    assertEquals(run, KnownRun.later(other, run));
    other.note(1, BASE_MS + 30_000, BASE_MS + 1, false);
    assertEquals(other, KnownRun.later(run, other));
    assertEquals(other, KnownRun.later(other, run));
  }
}
