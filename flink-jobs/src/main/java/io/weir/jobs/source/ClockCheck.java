package io.weir.jobs.source;

import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.StreamClock;
import java.util.HashMap;
import java.util.Map;

/**
 * Doubts Kafka's lists of the probes while the clock of the jobs' host, which dates them, is ahead:
 * by such a clock every probe looks silent, and every interval overdue.
 *
 * <p>A message that came between two lists shows it, because the broker dates that message: by a
 * clock that is right, it is no older than the first of the two lists. After a leap of the clock,
 * and at the start if the newest message is old, no list is believed until a message has come, or
 * has not come for a while. All times are ms; those of the clock and of the broker from 1970.
 */
public final class ClockCheck {
  /** How long to wait for a message after a leap of the clock. */
  static final long LEAP_WAIT_MS = 60_000;

  /** How long to wait for one after the start, if the newest one is older than this. */
  static final long START_WAIT_MS = 15_000;

  static final long START_OLD_MS = 600_000;

  /** The ends of all partitions when a list last had them, by probe. */
  private final Map<String, long[]> ends = new HashMap<>();

  private long lastAt;
  private long lastRunning;

  /** See {@link Enrolment#ahead}. */
  private long ahead;

  /** Until when to wait for a message, by the time that the jobs have been running. */
  private long waitUntil;

  /**
   * Returns the list, with its doubts.
   *
   * @param running a time that goes on evenly, whatever the clock does
   */
  public Enrolment check(Enrolment list, long running) {
    boolean first = lastAt == 0;
    long before = list.at() - (first ? 0 : running - lastRunning);
    long newest = newest(list);
    if (first) {
      if (newest > 0 && list.at() - newest > START_OLD_MS) {
        unsure(running + START_WAIT_MS);
      }
    } else if (newest > 0) {
      ahead = before - newest > StreamClock.CLOCK_MS ? before - newest : 0;
    } else if (Math.abs(before - lastAt) > StreamClock.CLOCK_MS) {
      unsure(running + LEAP_WAIT_MS);
    } else if (ahead == Enrolment.UNSURE && running >= waitUntil) {
      ahead = 0;
    }
    lastAt = list.at();
    lastRunning = running;
    list.probes().forEach(probe -> ends.put(probe.name(), probe.end()));
    return list.doubted(ahead);
  }

  private void unsure(long until) {
    ahead = Enrolment.UNSURE;
    waitUntil = until;
  }

  /** When the newest message since the last list came, or ever, at the first; 0 if none did. */
  private long newest(Enrolment list) {
    long newest = 0;
    for (Enrolment.Probe probe : list.probes()) {
      long[] known = ends.get(probe.name());
      for (int i = 0; i < probe.end().length; i++) {
        boolean came = known != null && i < known.length && probe.end()[i] > known[i];
        if (came || lastAt == 0) {
          newest = Math.max(newest, probe.newest()[i]);
        }
      }
    }
    return newest;
  }
}
