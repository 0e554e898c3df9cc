package io.weir.jobs.message;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class StreamClockTest {
  private static final long BASE_MS = 1_767_225_600_000L;
  private static final long HOUR_MS = 3_600_000;
  private static final long READ_EVERY_MS = 1_000;

  private final StreamClock clock = new StreamClock();
  private final long[] one = new long[4];
  private final long[] other = new long[4];

  private long advance(long now) {
    return clock.advance(now, () -> List.of(one, other).stream(), () -> false);
  }

  /** Both workers send until the jobs stop; returns the end of a downtime of an hour. */
  private long awayForAnHour() {
    for (long[] worker : List.of(one, other)) {
      advance(BASE_MS);
      clock.heard(worker, BASE_MS, BASE_MS);
    }
    assertEquals(BASE_MS, advance(BASE_MS));
    long now = BASE_MS + HOUR_MS;
    assertEquals(BASE_MS, advance(now), "waits for the workers");
    return now;
  }

  /**
   * A backlog is read for minutes: until its end, no window may end before its records are read.
   */
  @Test
  void theTimeIsThatOfTheWorkerFurthestBehind() {
    long now = awayForAnHour();
    for (long minute = 0; minute < 60; minute++) {
      long came = BASE_MS + minute * 60_000;
      clock.heard(one, came, now);
      clock.heard(other, came + 30_000, now);
      assertEquals(came, advance(now), "minute " + minute);
      now += READ_EVERY_MS;
    }
    clock.heard(one, now - 1_000, now);
    clock.heard(other, now - 1_000, now);
    assertEquals(now, advance(now), "nothing is left");
  }

  @Test
  void aWorkerThatFallsSilentInItsBacklogHoldsNobodyUpForLong() {
    long now = awayForAnHour();
    long came = BASE_MS + 60_000;
    clock.heard(one, came, now);
    clock.heard(other, came, now);
    for (long waited = 0; waited <= 15_000; waited += READ_EVERY_MS) {
      clock.heard(other, now + waited, now + waited);
      assertEquals(came, advance(now + waited));
    }
    now += 15_000 + READ_EVERY_MS;
    clock.heard(other, now, now);
    assertTrue(advance(now) >= now, "goes on without the silent one");
  }
}
