package io.weir.jobs.message;

import io.weir.jobs.serde.Fields;
import java.io.IOException;
import java.util.Arrays;

/**
 * The newest run of an agent's worker, according to the messages that {@link #note} took in.
 *
 * <p>An epoch is the time of the run's start by the agent's clock, and an agent that keeps its
 * state begins each run with a higher one. So a higher epoch is newer. A lower one may be either of
 * two things:
 *
 * <ul>
 *   <li>a new run of an agent that lost its state, after a run whose epoch was ahead;
 *   <li>leftovers of an older run, which come while the newer run sends, or long after their
 *       interval: delayed messages, dead letters that someone replays, or the spool of another
 *       host.
 * </ul>
 *
 * <p>So a message with a lower epoch begins a new run if all of this holds:
 *
 * <ul>
 *   <li>The known run is over: it has announced its stop or has been silent for {@link #SILENT_MS},
 *       or the epoch is a time after its last message.
 *   <li>The message's interval ended after that of the known run's last message, or after that
 *       message came. The second is for a run whose intervals were ahead.
 *   <li>The message comes within {@link #LATE_MS} after its interval.
 * </ul>
 *
 * <p>A run that another one has followed returns, whatever its epoch, if the other one is over and
 * it goes on: its intervals advance as fast as its messages come. So does a run with a lower epoch
 * whose clock is behind by more than {@link #LATE_MS}. One message, or a spool that is sent at
 * once, shows no such thing. Of the runs before, {@link #BEFORE} are known.
 *
 * <p>If messages of the known run still come after a run with a lower epoch began, the first
 * messages of that one count as leftovers; then it is the newer one, because only messages of the
 * known run count against its silence.
 *
 * <p>Times are ms from 1970. Those at which messages came are the broker's, so that a restart or a
 * delay of the jobs changes no decision; where they are unknown ({@link RawMessage#NO_TIME}), pass
 * the time of reading.
 */
public final class KnownRun {
  /**
   * How long a run that has announced no stop must be silent until one with a lower epoch may
   * follow.
   */
  public static final long SILENT_MS = 60_000;

  /**
   * How late after its interval a message of a new run with a lower epoch may come: later ones are
   * leftovers, and say nothing about the agent now.
   */
  public static final long LATE_MS = 3_600_000;

  /** A run goes on if its intervals advance as fast as its messages come, so often... */
  static final int STEPS = 3;

  /** ...each time for at least so long; it begins anew if they do not for so long. */
  static final long STEP_MS = 10_000;

  private static final long NO_STEP_MS = 60_000;

  /** How many epochs of runs that another one has followed are known. */
  static final int BEFORE = 4;

  private long epoch;
  private long until;
  private long heard;
  private boolean stopped;

  /** The epochs of the runs before it, the newest first; 0 for none. */
  private final long[] followed = new long[BEFORE];

  /** A run that may go on: its epoch, its steps, and the end and arrival at the last one. */
  private long back;

  private int backSteps;
  private long backUntil;
  private long backCame;

  /**
   * Takes in a message of the worker.
   *
   * @param epochOf the message, µs from 1970
   * @param end of its interval
   * @param came when the broker received it
   * @param last whether it is a closing record that announces the run's stop
   * @return whether it begins a newer run
   */
  public boolean note(long epochOf, long end, long came, boolean last) {
    boolean newer = isNewer(epochOf, end, came);
    if (newer) {
      follow(epochOf);
      epoch = epochOf;
      until = end;
      heard = came;
      stopped = last;
    } else if (epochOf == epoch) {
      until = Math.max(until, end);
      heard = Math.max(heard, came);
      stopped |= last;
    }
    return newer;
  }

  private boolean isNewer(long epochOf, long end, long came) {
    if (epochOf == epoch) {
      return false;
    }
    boolean over = stopped || came - heard >= SILENT_MS;
    if (isBefore(epochOf) || (epochOf < epoch && came - end > LATE_MS)) {
      return goesOn(epochOf, end, came) && over;
    }
    long began = epochOf / 1000;
    over |= heard < began && began <= came;
    return epochOf > epoch || (over && end > Math.min(until, heard));
  }

  /** Whether the intervals of a run advance as fast as its messages come. */
  private boolean goesOn(long epochOf, long end, long came) {
    long took = came - backCame;
    long on = end - backUntil;
    boolean same = epochOf == back;
    boolean step = same && took >= STEP_MS && on >= took / 2 && on <= 2 * took;
    if (step || !same || took > NO_STEP_MS) {
      back = epochOf;
      backSteps = step ? backSteps + 1 : 0;
      backUntil = end;
      backCame = came;
    }
    return same && backSteps >= STEPS;
  }

  /** Puts the epoch among those before, instead of the one that begins. */
  private void follow(long begins) {
    if (epoch == 0) {
      return;
    }
    int last = 0;
    while (last < BEFORE - 1 && followed[last] != begins) {
      last++;
    }
    System.arraycopy(followed, 0, followed, 1, last);
    followed[0] = epoch;
    back = 0;
  }

  /** Whether another run has followed the one with this epoch. */
  public boolean isBefore(long epochOf) {
    return Arrays.stream(followed).anyMatch(known -> known == epochOf);
  }

  /** Its epoch, µs from 1970; 0 before the first message. */
  public long epoch() {
    return epoch;
  }

  /** End of its newest interval. */
  public long until() {
    return until;
  }

  /** Whether it has announced its stop. */
  public boolean stopped() {
    return stopped;
  }

  /** The one of two that was heard later; of two that were heard at once, the one further on. */
  public static KnownRun later(KnownRun one, KnownRun other) {
    boolean first = one.heard != other.heard ? one.heard > other.heard : one.until > other.until;
    return first ? one : other;
  }

  /** The fields of the state. */
  public void fields(Fields fields) throws IOException {
    epoch = fields.of("epoch", epoch);
    until = fields.of("until", until);
    heard = fields.of("heard", heard);
    stopped = fields.of("stopped", stopped);
    for (int i = 0; i < BEFORE; i++) {
      followed[i] = fields.of("followed" + i, followed[i]);
    }
    back = fields.of("back", back);
    backSteps = fields.of("backSteps", backSteps);
    backUntil = fields.of("backUntil", backUntil);
    backCame = fields.of("backCame", backCame);
  }
}
