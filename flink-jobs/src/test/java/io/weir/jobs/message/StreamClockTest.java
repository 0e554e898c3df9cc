package io.weir.jobs.message;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

class StreamClockTest {
  private static final long BASE_MS = 1_767_225_600_000L;
  private static final long HOUR_MS = 3_600_000;
  private static final long READ_EVERY_MS = 1_000;

  private final StreamClock clock = new StreamClock();
  private final long[] one = new long[StreamClock.NUMBERS];
  private final long[] other = new long[StreamClock.NUMBERS];

  private long advance(long now) {
    return clock.advance(now, () -> List.of(one, other).stream(), () -> false);
  }

  private void heard(long came, long now) {
    clock.heard(one, came, now);
    clock.heard(other, came, now);
  }

  /** Kafka's answer to a question just asked. */
  private void list(long newest, long now) {
    for (long[] worker : List.of(one, other)) {
      clock.newest(worker, newest);
    }
    clock.listed(now, now);
  }

  /** Both workers send, and Kafka lists them. */
  private void live() {
    advance(BASE_MS);
    heard(BASE_MS, BASE_MS);
    list(BASE_MS, BASE_MS);
    assertEquals(BASE_MS, advance(BASE_MS));
  }

  /** Both workers send until the jobs stop; returns the end of a downtime of an hour. */
  private long awayForAnHour() {
    live();
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
    heard(now - 1_000, now);
    assertEquals(now, advance(now), "nothing is left");
  }

  @Test
  void nobodyWaitsLongForAWorkerWhoseMessagesCannotBeRead() {
    long now = awayForAnHour();
    long came = BASE_MS + 60_000;
    heard(came, now);
    for (long waited = 0; waited <= 60_000; waited += READ_EVERY_MS) {
      clock.heard(other, now + waited, now + waited);
      assertEquals(came, advance(now + waited));
    }
    now += 60_000 + READ_EVERY_MS;
    clock.heard(other, now, now);
    assertTrue(advance(now) >= now, "goes on without the silent one");
  }

  /** The store is away for a quarter of an hour, and the jobs can read nothing meanwhile. */
  @Test
  void theTimeStandsStillWhileKafkaHoldsMessagesThatTheJobsDoNotRead() {
    live();
    long now = BASE_MS;
    for (long stalled = 0; stalled <= 900_000; stalled += 5_000) {
      now = BASE_MS + stalled;
      list(now, now);
      assertTrue(advance(now) <= BASE_MS + 15_000, "after " + stalled + " ms");
    }
    heard(now - 300_000, now);
    assertEquals(now - 300_000, advance(now));
    heard(now, now);
    assertEquals(now, advance(now));
  }

  @Test
  void theTimeGoesOnWithoutMessagesIfKafkaHasNone() {
    live();
    LongStream.rangeClosed(1, 180)
        .map(poll -> BASE_MS + 5_000 * poll)
        .forEach(
            now -> {
              list(BASE_MS, now);
              assertEquals(now, advance(now));
            });
  }

  /** Reading slower than the messages came, and with pauses, is still reading. */
  @Test
  void aPauseInABacklogEndsNoWait() {
    long now = awayForAnHour();
    for (long minute = 0; minute < 30; minute++) {
      long came = BASE_MS + minute * 60_000;
      heard(came, now);
      list(BASE_MS + 2 * HOUR_MS, now);
      for (long paused = 0; paused < 90_000; paused += READ_EVERY_MS) {
        assertEquals(came, advance(now + paused));
      }
      now += 90_000;
    }
  }

  /** Jobs that start with a backlog of an hour begin at its begin, not at the wall clock. */
  @Test
  void aFirstStartBeginsWithTheBacklog() {
    long now = BASE_MS + HOUR_MS;
    assertEquals(0, advance(now), "it is not known yet");
    heard(BASE_MS, now);
    assertEquals(0, advance(now + 1));
    list(now, now + 2);
    assertEquals(BASE_MS, advance(now + 3));
  }

  @Test
  void aClockAheadClosesNothingThatHasNotCome() {
    assertEquals(BASE_MS, StreamClock.closed(BASE_MS, BASE_MS - 1_000));
    assertEquals(BASE_MS, StreamClock.closed(BASE_MS, BASE_MS - 60_000));
    assertEquals(BASE_MS + 60_000, StreamClock.closed(BASE_MS + HOUR_MS, BASE_MS));
    assertEquals(BASE_MS, StreamClock.closed(BASE_MS, RawMessage.NO_TIME));
  }
}
