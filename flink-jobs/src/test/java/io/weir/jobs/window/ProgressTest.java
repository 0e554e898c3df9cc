package io.weir.jobs.window;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.message.Retired;
import java.util.List;
import org.junit.jupiter.api.Test;

class ProgressTest {
  private static final long NOW = 1_767_225_600_000L;

  private final Progress progress = new Progress();

  private void mark(int worker, long epoch, long until) {
    progress.mark("alpha", new Progress.Mark(worker, 2, epoch, until, NOW, false), NOW);
  }

  private void list(List<String> names, long at) {
    progress.list(names, at, new long[names.size()], at);
  }

  @Test
  void anAgentThatRestartsIsCompleteByItsNewRun() {
    for (int worker = 0; worker < 2; worker++) {
      mark(worker, 7, 30);
    }
    assertTrue(progress.complete("alpha", 30));
    for (int worker = 0; worker < 2; worker++) {
      assertFalse(progress.complete("alpha", 60));
      mark(worker, 8, 60);
    }
    assertTrue(progress.complete("alpha", 60));
    assertEquals(1, progress.reported(60));
    mark(0, 7, 90);
    mark(1, 7, 90);
    assertFalse(progress.complete("alpha", 90), "closing records of an older run are ignored");
  }

  /** A clock that was set back begins a new run: what the run before closed is open again. */
  @Test
  void aNewRunMayBeBehindTheOneBefore() {
    mark(0, 7, 90);
    mark(1, 7, 90);
    long turn = progress.turn();
    mark(0, 8, 60);
    assertFalse(progress.complete("alpha", 90));
    assertTrue(progress.turn() > turn, "windows are looked at again");
    assertEquals(0, progress.reported(90));
    assertEquals(1, progress.reported(60));
  }

  /** An agent that began while its clock was ahead begins again with the right time. */
  @Test
  void aRunWithALowerEpochCountsOnceTheOneBeforeIsSilent() {
    progress.mark("alpha", new Progress.Mark(0, 1, 8, NOW, NOW, false), NOW);
    progress.mark("alpha", new Progress.Mark(0, 1, 7, NOW + 30_000, NOW + 30_000, false), NOW);
    assertFalse(progress.complete("alpha", NOW + 30_000), "leftovers of an older run");
    progress.mark("alpha", new Progress.Mark(0, 1, 7, NOW + 60_000, NOW + 60_000, false), NOW);
    assertTrue(progress.complete("alpha", NOW + 60_000));
  }

  @Test
  void aRunWithALowerEpochCountsAtOnceAfterTheLastRecordOfTheOneBefore() {
    progress.mark("alpha", new Progress.Mark(0, 1, 8, NOW, NOW, true), NOW);
    progress.mark("alpha", new Progress.Mark(0, 1, 7, NOW + 30_000, NOW + 1_000, false), NOW);
    assertTrue(progress.complete("alpha", NOW + 30_000));
  }

  @Test
  void leftoversOfARunWithAHigherEpochChangeNothing() {
    progress.mark("alpha", new Progress.Mark(0, 2, 8, NOW, NOW, true), NOW);
    progress.mark("alpha", new Progress.Mark(0, 1, 7, NOW + 30_000, NOW + 30_000, false), NOW);
    progress.mark("alpha", new Progress.Mark(0, 2, 8, NOW + 60_000, NOW + 31_000, false), NOW);
    assertTrue(progress.complete("alpha", NOW + 30_000), "it has one worker");
    assertFalse(progress.complete("alpha", NOW + 60_000));
  }

  @Test
  void aProbeThatHasBeenRemovedIsForgotten() {
    List<String> both = List.of("alpha", "beta");
    List<String> one = List.of("alpha");
    mark(0, 7, 30);
    progress.mark("beta", new Progress.Mark(0, 2, 7, 30, NOW, false), NOW);
    list(both, NOW);
    list(one, NOW + 1);
    list(one, NOW + Retired.AFTER_MS);
    assertTrue(progress.knows("beta"));
    assertEquals(2, progress.reported(Long.MIN_VALUE));
    long turn = progress.turn();
    list(one, NOW + Retired.AFTER_MS + 1);
    assertFalse(progress.knows("beta"));
    assertEquals(1, progress.reported(Long.MIN_VALUE));
    assertTrue(progress.turn() > turn, "windows are looked at again");
    assertEquals(1, progress.known());
  }

  /** After a month: until then the probe may return with what it had spooled. */
  @Test
  void windowsThatAreOverAreForgottenLongAfterTheirProbe() {
    Over over = new Over();
    long month = 30L * 86_400_000;
    long window = NOW / 30_000;
    List.of("", "alpha", "beta").forEach(name -> over.add(name, window));
    mark(0, 7, 30);
    progress.mark("beta", new Progress.Mark(0, 1, 7, 30, NOW, false), NOW);
    assertFalse(over.forget(progress, NOW + 2 * month, 30_000, 60_000), "no list has arrived yet");
    for (long at : new long[] {NOW, NOW + Retired.AFTER_MS - 1}) {
      list(List.of("alpha"), at);
      assertFalse(over.forget(progress, at + 2 * month, 30_000, 60_000));
    }
    list(List.of("alpha"), NOW + Retired.AFTER_MS);
    assertFalse(over.forget(progress, NOW + month, 30_000, 60_000));
    assertTrue(over.forget(progress, NOW + month + 600_000, 30_000, 60_000));
    assertFalse(over.has("beta", window));
    assertTrue(over.has("", window) && over.has("alpha", window));
  }
}
