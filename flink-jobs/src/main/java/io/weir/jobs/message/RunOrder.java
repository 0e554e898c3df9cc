package io.weir.jobs.message;

/**
 * Decides which of two runs of an agent's worker is the newer one. The caller keeps two numbers of
 * the newest run that it knows: the epoch, and {@code heard}, which {@link #heard} computes; and it
 * asks {@link #isNewer} about each message. It may keep a third one, {@code before}, so that
 * leftovers of a run with a higher epoch change nothing. All methods only compare numbers.
 *
 * <pre>
 *   if (RunOrder.isNewer(epoch, until, appended, known.epoch, known.heard, before)) {
 *     before = RunOrder.before(epoch, known.epoch, before);
 *     known = a new run with this epoch, whose heard is 0
 *   }
 *   if (epoch == known.epoch) {
 *     known.heard = RunOrder.heard(known.heard, appended, closing.getLast());
 *   }
 * </pre>
 *
 * <p>An epoch is the time of the run's start by the agent's clock, and an agent that keeps its
 * state begins each run with a higher one. So a higher epoch is newer. A lower one may be either of
 * two things:
 *
 * <ul>
 *   <li>a new run of an agent that lost its state, after a run whose clock was ahead;
 *   <li>leftovers of an older run, which come while the newer run sends, or long after their
 *       interval: dead letters that someone replays, or the spool of another host.
 * </ul>
 *
 * <p>So a run with a lower epoch is the newer one if the known run has announced its stop or has
 * been silent for {@link #SILENT_MS}, or if the epoch is a time after the known run's last message,
 * unless the message comes later than {@link #LATE_MS} after its interval. If that is wrong, a
 * message of the run with the higher epoch corrects it: the next one, or, with {@code before}, the
 * first one of a later interval after the run with the lower epoch has been silent for as long.
 * What the run with the higher epoch had sent until then may still come, and does not count.
 *
 * <p>If messages of the known run still come after a run with a lower epoch began, the first
 * messages of that one count as leftovers; then it is the newer one, because only messages of the
 * known run count against its silence.
 *
 * <p>Times are those at which the broker received messages, so that a restart or a delay of the
 * jobs changes no decision. Where the broker's time is unknown ({@link RawMessage#NO_TIME}), pass
 * the time of reading.
 */
public final class RunOrder {
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

  private RunOrder() {}

  /**
   * Whether a message belongs to a newer run than the known one.
   *
   * @param epoch of the message
   * @param until end of the message's interval, ms from 1970
   * @param appended when the broker received the message, ms from 1970
   * @param known epoch of the newest run so far, 0 if there is none
   * @param heard the newest run's value of {@link #heard}; 0 if it is unknown, in a state of an
   *     earlier version, for example: the run then counts as silent
   */
  public static boolean isNewer(long epoch, long until, long appended, long known, long heard) {
    if (epoch >= known) {
      return epoch > known;
    }
    long began = epoch / 1000; // an epoch is a time in µs
    boolean after = heard < began && began <= appended;
    boolean over = after || heard <= 0 || appended - heard >= SILENT_MS;
    return over && appended - until <= LATE_MS;
  }

  /** Indices of the numbers that {@link #note} keeps. */
  public static final int EPOCH = 0;

  public static final int UNTIL = 1;
  public static final int HEARD = 2;

  /** How many numbers these are. */
  public static final int NUMBERS = HEARD + 1;

  /**
   * Notes a message in the numbers of a worker: its newest run, the end of what that run has
   * closed, and when it was heard. Messages of older runs change nothing.
   *
   * @return whether a newer run began
   */
  public static boolean note(long[] known, long epoch, long until, long came, boolean last) {
    boolean newer = isNewer(epoch, until, came, known[EPOCH], known[HEARD]);
    if (newer) {
      known[EPOCH] = epoch;
      known[UNTIL] = until;
      known[HEARD] = 0;
    }
    if (epoch == known[EPOCH]) {
      known[UNTIL] = Math.max(known[UNTIL], until);
      known[HEARD] = heard(known[HEARD], came, last);
    }
    return newer;
  }

  /**
   * Whether a message belongs to a newer run than the known one, which may have followed a run with
   * a higher epoch.
   *
   * @param before what {@link #before} stated when the known run became the newest, else 0
   */
  public static boolean isNewer(
      long epoch, long until, long appended, long known, long heard, long before) {
    if (epoch == before && epoch > known) {
      long newest = Math.abs(heard);
      return until > newest && appended - newest >= SILENT_MS;
    }
    return isNewer(epoch, until, appended, known, heard);
  }

  /**
   * The higher epoch of the run that a run with a lower one followed; 0 if the newest run has the
   * highest epoch. To be computed whenever a run becomes the newest.
   *
   * @param epoch of the run that becomes the newest
   * @param known epoch of the newest run until now
   * @param before the value until now
   */
  public static long before(long epoch, long known, long before) {
    if (epoch < known) {
      return known;
    }
    return epoch < before ? before : 0;
  }

  /**
   * When the broker received the newest message of the newest run, ms from 1970; negative if the
   * run has announced its stop. To compare two such values, take {@link Math#abs}.
   *
   * @param heard the value before, 0 at the run's first message
   * @param appended when the broker received this message of the run
   * @param last whether this message is a closing record that announces the stop
   */
  public static long heard(long heard, long appended, boolean last) {
    long newest = Math.max(Math.abs(heard), appended);
    return last || heard < 0 ? -newest : newest;
  }
}
