package io.weir.jobs.filters;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class HeardTest {
  private final Heard heard = new Heard();

  @Test
  void anAgentThatRestartsIsCompleteByItsNewRun() {
    heard.mark(0, 7, 30_000, 10_000, 1);
    heard.mark(1, 7, 30_000, 10_000, 1);
    heard.mark(0, 8, 60_000, 10_000, 1);
    assertTrue(heard.complete(30_000));
    assertFalse(heard.complete(60_000));
    heard.mark(1, 8, 60_000, 10_000, 1);
    assertTrue(heard.complete(60_000));
    heard.mark(0, 7, 90_000, 10_000, 1);
    heard.mark(1, 7, 90_000, 10_000, 1);
    assertFalse(heard.complete(90_000), "counters of an older run are ignored");
    heard.mark(0, 9, 40_000, 10_000, 1);
    assertFalse(heard.complete(60_000), "a clock that was set back begins a new run");
    assertEquals(60_000, heard.newest());
  }
}
