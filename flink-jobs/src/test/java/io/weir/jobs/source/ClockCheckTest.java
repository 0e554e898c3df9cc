package io.weir.jobs.source;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.weir.jobs.message.Enrolment;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Times are seconds after {@link #BASE_MS}. */
class ClockCheckTest {
  private static final long BASE_MS = 1_767_225_600_000L;
  private static final long HOUR = 3_600;

  private final ClockCheck check = new ClockCheck();

  /** By how many seconds the clock of the jobs' host is ahead. */
  private long ahead;

  private long end;
  private long newest;

  /** A message comes to the partition. */
  private void comes(long at) {
    end++;
    newest = BASE_MS + 1000 * at;
  }

  /** By how many seconds the list of this moment finds the clock ahead. */
  private long list(long at) {
    return list(
        at, new Enrolment.Probe("alpha", new long[1], new long[] {end}, came(), none(), none()));
  }

  private long list(long at, Enrolment.Probe... probes) {
    Enrolment list = new Enrolment(BASE_MS + 1000 * (at + ahead), List.of(probes));
    long found = check.check(list, 1000 * at).ahead();
    return found > 0 ? found / 1000 : found;
  }

  private long[] came() {
    return new long[] {newest};
  }

  private static long[] none() {
    return new long[0];
  }

  @Test
  void aClockThatIsRightIsBelieved() {
    List<Long> found = new ArrayList<>();
    for (long at = 0; at < 600; at += 5) {
      if (at % 10 == 0 && at < 300) {
        comes(at);
      }
      found.add(list(at));
    }
    assertEquals(List.of(0L), found.stream().distinct().toList());
  }

  @Test
  void aMessageThatIsOlderThanTheListBeforeItShowsThatTheClockIsAhead() {
    comes(0);
    assertEquals(0, list(5));
    ahead = HOUR;
    assertEquals(Enrolment.UNSURE, list(10), "it has leapt");
    comes(12);
    assertEquals(HOUR - 2, list(15));
    assertEquals(HOUR - 2, list(20), "nothing shows otherwise");
    comes(22);
    assertEquals(HOUR - 2, list(25));
    ahead = 0;
    assertEquals(Enrolment.UNSURE, list(30), "it was set back");
    comes(32);
    assertEquals(0, list(35));
  }

  @Test
  void aMinuteIsNotAhead() {
    comes(0);
    list(5);
    ahead = 62;
    comes(6);
    assertEquals(61, list(10), "it was asked 5 s before");
    ahead = 58;
    comes(13);
    assertEquals(0, list(15));
  }

  @Test
  void aLeapIsBelievedWhereNoMessageComes() {
    comes(0);
    list(5);
    ahead = HOUR;
    list(10);
    assertEquals(Enrolment.UNSURE, list(69));
    assertEquals(0, list(70));
  }

  /** The host slept for an hour: the time for which the jobs have been running stood still. */
  @Test
  void aClockThatLeapsToTheRightTimeIsBelievedWithTheNextMessage() {
    comes(0);
    list(5);
    ahead = HOUR;
    comes(HOUR + 7);
    assertEquals(0, list(10));
  }

  @Test
  void aStartLongAfterTheNewestMessageWaitsForAnother() {
    comes(0);
    ahead = HOUR;
    assertEquals(Enrolment.UNSURE, list(5));
    comes(7);
    assertEquals(HOUR - 2, list(10));
  }

  @Test
  void aStartWithoutMessagesGoesOn() {
    comes(0);
    assertEquals(Enrolment.UNSURE, list(601));
    assertEquals(Enrolment.UNSURE, list(615));
    assertEquals(0, list(616));
  }

  @Test
  void aStartWithoutAnyMessageIsBelieved() {
    ahead = HOUR;
    assertEquals(0, list(5));
  }

  @Test
  void oldMessagesOfAProbeThatAListLackedShowNothing() {
    comes(0);
    assertEquals(0, list(5));
    assertEquals(0, list(100, new Enrolment.Probe[0]));
    assertEquals(0, list(105));
    comes(106);
    Enrolment.Probe more =
        new Enrolment.Probe(
            "beta", new long[1], new long[] {3}, new long[] {BASE_MS}, none(), none());
    assertEquals(0, list(110, more));
  }
}
