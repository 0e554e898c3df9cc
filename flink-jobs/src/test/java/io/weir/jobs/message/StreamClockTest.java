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

  /** Messages of alpha's and beta's partition that were read. */
  private final long[] read = new long[2];

  private long advance(long now) {
    return clock.advance(now);
  }

  private void one(long came, long now) {
    clock.heard("alpha", 0, read[0]++, came, now);
  }

  private void other(long came, long now) {
    clock.heard("beta", 1, read[1]++, came, now);
  }

  private void heard(long came, long now) {
    one(came, now);
    other(came, now);
  }

  /** Kafka's answer to a question just asked: so many messages are unread in each partition. */
  private void list(int unread, long newest, long now) {
    long[] ends = {1, read[0] + unread, newest, 2, 0, 0, read[1] + unread, newest};
    clock.listed(now, List.of("alpha", "beta"), ends, now);
  }

  /** Both workers send, and Kafka lists them. */
  private void live() {
    advance(BASE_MS);
    heard(BASE_MS, BASE_MS);
    list(0, BASE_MS, BASE_MS);
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
    list(999, now, now);
    for (long minute = 0; minute < 60; minute++) {
      long came = BASE_MS + minute * 60_000;
      one(came, now);
      other(came + 30_000, now);
      assertEquals(came, advance(now), "minute " + minute);
      now += READ_EVERY_MS;
    }
    heard(now - 1_000, now);
    list(0, now - 1_000, now);
    assertEquals(now, advance(now), "nothing is left");
  }

  @Test
  void nobodyWaitsLongForAWorkerWhoseMessagesCannotBeRead() {
    long now = awayForAnHour();
    list(999, now, now);
    long came = BASE_MS + 60_000;
    heard(came, now);
    for (long waited = 0; waited <= 60_000; waited += READ_EVERY_MS) {
      other(now + waited, now + waited);
      assertEquals(came, advance(now + waited));
    }
    now += 60_000 + READ_EVERY_MS;
    other(now, now);
    assertTrue(advance(now) >= now, "goes on without the silent one");
  }

  @Test
  void nobodyWaitsLongerWhereAMessageComesEveryTenSeconds() {
    live();
    long now = BASE_MS + 20_000;
    list(1, now - 16_000, now);
    for (long waited = 0; waited <= 50_000; waited += 10_000) {
      one(now + waited, now + waited);
      assertEquals(BASE_MS, advance(now + waited));
    }
    one(now + 60_000, now + 60_000);
    assertEquals(now + 60_000, advance(now + 60_000));
  }

  /** A worker that sent nothing for long returns while others are still behind. */
  @Test
  void aWorkerThatReturnsIsWaitedFor() {
    long now = awayForAnHour();
    long came = BASE_MS + 60_000;
    for (long read = 0; read < 90_000; read += READ_EVERY_MS) {
      clock.listed(
          now, List.of("alpha", "beta"), new long[] {1, 999, now, 2, 0, 0, 1, BASE_MS}, now);
      one(came, now);
      now += READ_EVERY_MS;
      came += 10_000;
      assertEquals(came - 10_000, advance(now), "beta has sent nothing");
    }
    list(1, now, now);
    one(now, now);
    assertTrue(advance(now) < now, "a message of beta is unread");
    other(now, now);
    assertEquals(now, advance(now));
  }

  @Test
  void nobodyWaitsForARemovedProbe() {
    live();
    long now = BASE_MS + 20_000;
    list(1, now - 1_000, now);
    one(now, now);
    assertEquals(BASE_MS, advance(now), "a message of beta is unread");
    now += 5_000;
    clock.listed(now, List.of("alpha"), new long[] {1, read[0], now - 5_000}, now);
    assertEquals(now, advance(now), "its topic is gone");
  }

  /** The store is away for a quarter of an hour, and the jobs can read nothing meanwhile. */
  @Test
  void theTimeStandsStillWhileKafkaHoldsMessagesThatTheJobsDoNotRead() {
    live();
    long now = BASE_MS;
    for (long stalled = 0; stalled <= 900_000; stalled += 5_000) {
      now = BASE_MS + stalled;
      list(1, now, now);
      assertTrue(advance(now) <= BASE_MS + 15_000, "after " + stalled + " ms");
    }
    heard(now - 300_000, now);
    list(1, now, now);
    assertEquals(now - 300_000, advance(now));
    heard(now, now);
    assertEquals(now, advance(now));
  }

  /** Messages that a broker received in one request have the same time. */
  @Test
  void theTimeStandsStillBeforeTheLastMessageOfAMoment() {
    long now = awayForAnHour();
    heard(BASE_MS + 10_000, now);
    list(1, BASE_MS + 10_000, now);
    assertEquals(BASE_MS + 10_000, advance(now));
    heard(BASE_MS + 10_000, now);
    assertEquals(now, advance(now));
  }

  @Test
  void theTimeGoesOnWithoutMessagesIfKafkaHasNone() {
    live();
    LongStream.rangeClosed(1, 180)
        .map(poll -> BASE_MS + 5_000 * poll)
        .forEach(
            now -> {
              list(0, BASE_MS, now);
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
      list(9, BASE_MS + 2 * HOUR_MS, now);
      for (long paused = 0; paused < 90_000; paused += READ_EVERY_MS) {
        assertEquals(came, advance(now + paused));
      }
      now += 90_000;
    }
  }

  /** While Kafka gives no list, a message that is read late is a sign that others are left. */
  @Test
  void withoutListsTheTimeIsThatOfMessagesReadLate() {
    long now = awayForAnHour();
    heard(BASE_MS + 60_000, now);
    other(BASE_MS + 90_000, now + 10_000);
    assertEquals(BASE_MS, advance(now + 10_000), "a list may come yet");
    assertEquals(BASE_MS + 60_000, advance(now + 20_000));
    heard(now + 20_000, now + 20_000);
    assertEquals(now + 20_000, advance(now + 20_000));
  }

  /** Jobs that start with a backlog of an hour begin at its begin, not at the wall clock. */
  @Test
  void aFirstStartBeginsWithTheBacklog() {
    long now = BASE_MS + HOUR_MS;
    assertEquals(0, advance(now), "it is not known yet");
    heard(BASE_MS, now);
    assertEquals(0, advance(now + 1));
    list(9, now, now + 2);
    assertEquals(BASE_MS, advance(now + 3));
  }

  /** A partition of which nothing was read yet may hold the oldest messages. */
  @Test
  void theTimeWaitsForAPartitionThatWasNeverRead() {
    long now = BASE_MS + HOUR_MS;
    advance(now);
    one(BASE_MS + 60_000, now);
    list(9, now, now);
    assertEquals(0, advance(now));
    other(BASE_MS, now + 1_000);
    assertEquals(BASE_MS, advance(now + 1_000));
  }

  @Test
  void theTimeGoesBackWithAClockThatWasAhead() {
    live();
    long ahead = BASE_MS + 1_000 * HOUR_MS;
    list(0, BASE_MS, ahead);
    assertEquals(ahead, advance(ahead));
    long now = BASE_MS + 60_000;
    list(0, now, now);
    assertEquals(now, advance(now));
    assertEquals(now, advance(now - 60_000), "a minute is nothing");
    heard(now, now);
    list(9, now, now + 20_000);
    assertEquals(now, advance(now + 20_000), "a backlog is waited for as ever");
  }

  @Test
  void aClockAheadClosesNothingThatHasNotCome() {
    assertEquals(BASE_MS, StreamClock.closed(BASE_MS, BASE_MS - 1_000));
    assertEquals(BASE_MS, StreamClock.closed(BASE_MS, BASE_MS - 60_000));
    assertEquals(BASE_MS + 60_000, StreamClock.closed(BASE_MS + HOUR_MS, BASE_MS));
    assertEquals(BASE_MS, StreamClock.closed(BASE_MS, RawMessage.NO_TIME));
  }
}
