package io.weir.jobs.message;

import io.weir.jobs.serde.Fields;
import java.io.IOException;
import java.util.Comparator;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.stream.Stream;

/**
 * The time that windows follow: the wall clock, or, while Kafka holds messages that the jobs have
 * not read, the time at which the broker received the messages that they read, taken from the
 * worker that is furthest behind. A backlog therefore produces the same windows as live reading
 * would have produced, at any speed and with any pause. Times are ms from 1970.
 *
 * <p>Kafka's list of the probes says when the newest message of each worker came ({@link #newest});
 * while no list comes, the clock takes it that messages are left if the last one was read late. It
 * does not wait for a worker of which the jobs read nothing while they read from others for {@link
 * #SILENT_MS}, as when its messages are unreadable.
 *
 * <p>After a start or a downtime of the jobs, the time stands still until a list has come or
 * messages of all known workers have been read, or some seconds have passed since the first. It
 * never goes backwards.
 *
 * <p>A worker is an array of {@link #NUMBERS} numbers, of which this class uses the last three;
 * they are 0 until a message of the worker is read. A known worker must keep its array. The clock
 * searches the workers only when a message of the one furthest behind was read, that worker has
 * fallen silent, or a list came, so that a message costs about the same for any number of workers.
 */
public final class StreamClock {
  /** Of a worker: when the broker received the newest message that the jobs have read. */
  private static final int CAME = 3;

  /** How long the jobs had been reading ({@link #active}) when they read that message. */
  private static final int READ = 4;

  /** When the broker received the newest message that Kafka has, as far as known. */
  private static final int NEWEST = 5;

  /** Length of a worker's array. */
  public static final int NUMBERS = NEWEST + 1;

  /** A worker is behind if its newest message came this much later than the newest one read. */
  private static final long BEHIND_MS = 15_000;

  /**
   * How long a window accepts late data: five minutes after its end, plus the time that may pass
   * before a backlog is detected.
   */
  public static final long KEEP_MS = 300_000 + 2 * BEHIND_MS;

  /** How long to wait for other workers after the first message that follows a downtime. */
  private static final long FIRST_MS = 15_000;

  /** How long to wait for a worker from which nothing is read while the jobs read from others. */
  private static final long SILENT_MS = 60_000;

  /** How long to wait for the first worker after a downtime of the jobs. */
  private static final long START_MS = 120_000;

  /** Without a list for so long, the clock no longer relies on the last one. */
  private static final long LISTED_MS = 60_000;

  /** Reading pauses where no message is read for longer. */
  private static final long PAUSE_MS = 1_000;

  /** Value of {@link #furthest}: no worker is behind. */
  private static final long NONE = Long.MAX_VALUE;

  /** Value of a number derived from all workers: it must be derived again. */
  private static final long UNKNOWN = -1;

  /**
   * How far ahead of the time a window may begin and still be kept until the time has come. Rows of
   * a window further ahead are written only if the probe, or all probes, have closed it by the
   * broker's clock, so that the jobs' clock is wrong: others may reach it long after its data is
   * gone.
   */
  public static final long AHEAD_MS = 900_000;

  /** How far the clock of an agent may be ahead of the broker's before its word is doubted. */
  private static final long CLOCK_MS = 60_000;

  /** The time; 0 before it is known. */
  private long time;

  /** The last call, by the wall clock. */
  private long looked;

  /**
   * How long the jobs have been reading, without pauses, and the last reading by the wall clock.
   */
  private long active;

  private long beat;

  /** A wait for silent workers: its begin, also by {@link #active}, and its end. */
  private static final class Wait {
    long since;
    long activeBefore;
    long until;

    void fields(Fields fields) throws IOException {
      since = fields.of("since", since);
      activeBefore = fields.of("activeBefore", activeBefore);
      until = fields.of("until", until);
    }
  }

  private final Wait wait = new Wait();

  /** When Kafka was asked for the newest list, and when that arrived. */
  private long asked;

  private long arrived;

  /**
   * {@link #CAME} of the worker furthest behind; {@link #NONE} if no worker is behind, {@link
   * #UNKNOWN} if the workers must be searched.
   */
  private transient long furthest = UNKNOWN;

  /** {@link #active} at the end of the wait for that worker. */
  private transient long furthestUntil;

  /**
   * Number of workers to wait for that have sent nothing yet; {@link #UNKNOWN} if they must be
   * counted.
   */
  private transient long unheard = UNKNOWN;

  /** Notes that a message of a worker was read, which the broker received at {@code appended}. */
  public void heard(long[] worker, long appended, long now) {
    long came = appended == RawMessage.NO_TIME ? now : appended;
    active += Math.max(0, Math.min(now - beat, PAUSE_MS));
    beat = now;
    wait.until = Math.min(wait.until, now + FIRST_MS);
    if (unheard != UNKNOWN && isUnheard(worker)) {
      unheard--;
    }
    if (worker[CAME] == furthest) {
      furthest = UNKNOWN;
    }
    worker[CAME] = Math.max(worker[CAME], came);
    worker[READ] = active;
    if (!isListed(now)) {
      worker[NEWEST] = now;
    }
    if (furthest != UNKNOWN && worker[CAME] < furthest && isBehind(worker)) {
      furthest = worker[CAME];
      furthestUntil = active + SILENT_MS;
    }
  }

  /**
   * Notes when the broker received the newest message of a worker, by Kafka's word: 0 if it has
   * none.
   *
   * @param worker null if it is not known
   */
  public void newest(long[] worker, long came) {
    if (worker != null) {
      worker[NEWEST] = came;
    }
  }

  /** Notes that a list arrived whose {@link #newest} messages the clock knows. */
  public void listed(long at, long now) {
    asked = at;
    arrived = now;
    furthest = UNKNOWN;
  }

  /**
   * Advances the time, and returns it. Call it before {@link #heard} as well: otherwise the first
   * message of a backlog would hide the downtime.
   *
   * @param workers all known workers
   * @param unknown whether there are other, unknown workers
   */
  public long advance(long now, Supplier<Stream<long[]>> workers, BooleanSupplier unknown) {
    if (now - looked > 2 * BEHIND_MS) { // the jobs were away
      wait.since = now;
      wait.until = now + START_MS;
      wait.activeBefore = active;
      unheard = UNKNOWN;
    }
    looked = now;
    if (furthest == UNKNOWN || active > furthestUntil) {
      search(workers.get());
    }
    long to = Math.min(now, furthest);
    if (now >= wait.until) {
      wait.until = 0;
    } else if (unknown.getAsBoolean()
        || (asked < wait.since && (time == 0 || unheard(workers) > 0))) {
      to = time;
    }
    time = Math.max(time, to);
    return time;
  }

  /** Notes that some workers are no longer known. */
  public void forgotSome() {
    furthest = UNKNOWN;
    unheard = UNKNOWN;
  }

  /** Finds the worker furthest behind. */
  private void search(Stream<long[]> workers) {
    long[] found =
        workers
            .filter(this::isBehind)
            .min(Comparator.comparingLong(worker -> worker[CAME]))
            .orElse(null);
    furthest = found == null ? NONE : found[CAME];
    furthestUntil = found == null ? Long.MAX_VALUE : found[READ] + SILENT_MS;
  }

  private long unheard(Supplier<Stream<long[]>> workers) {
    if (unheard == UNKNOWN) {
      unheard = workers.get().filter(this::isUnheard).count();
    }
    return unheard;
  }

  /**
   * The end of an interval, but no later than {@link #CLOCK_MS} after the broker received the
   * record that closes it: a clock that is ahead cannot have closed what has not come yet.
   */
  public static long closed(long end, long appended) {
    return appended == RawMessage.NO_TIME ? end : Math.min(end, appended + CLOCK_MS);
  }

  /**
   * The time at which the first data of a window that ends at {@code end} arrived: the current time
   * or, if that stands still or lags, the earliest time at which records of the window can have
   * arrived. A window counts as ahead only if it is ahead of the wall clock.
   */
  public static long began(long time, long now, long end) {
    return Math.max(time, Math.min(now, end));
  }

  /**
   * When a window ends by the time that windows follow; it does not wait until a clock that is far
   * ahead has been reached.
   *
   * @param end of the window
   * @param whole when its data should have arrived
   * @param far whether it is too far ahead to be kept until its time, see {@link #AHEAD_MS}
   */
  public record Ending(long end, long whole, boolean far) {
    /** The ending, at this time, of a window whose first data arrived at {@code began}. */
    public static Ending of(long time, long start, long length, long began) {
      boolean ahead = time < start && start - began > KEEP_MS;
      long end = start + length;
      long whole = ahead ? began + length : Math.max(end, began);
      return new Ending(end, whole, ahead && start - time > AHEAD_MS);
    }

    /**
     * From when on the window is kept for late data, if its last data arrived at {@code touched}.
     */
    public long keptFrom(long touched) {
      return Math.max(touched, far ? whole : Math.max(end, whole));
    }
  }

  private boolean isBehind(long[] worker) {
    return active - worker[READ] <= SILENT_MS && worker[NEWEST] - worker[CAME] > BEHIND_MS;
  }

  private boolean isUnheard(long[] worker) {
    return worker[READ] <= wait.activeBefore;
  }

  private boolean isListed(long now) {
    return now - arrived <= LISTED_MS;
  }

  /**
   * Restores the state that a subtask kept; with several subtasks the earliest time, so that no
   * window ends too early.
   */
  public void restore(StreamClock kept) {
    time = earlier(time, kept.time);
    looked = earlier(looked, kept.looked);
    active = Math.max(active, kept.active);
    beat = Math.max(beat, kept.beat);
    wait.activeBefore = Math.max(wait.activeBefore, kept.wait.activeBefore);
    asked = Math.max(asked, kept.asked);
    arrived = Math.max(arrived, kept.arrived);
    wait.since = Math.max(wait.since, kept.wait.since);
    wait.until = Math.max(wait.until, kept.wait.until);
    furthest = UNKNOWN;
    unheard = UNKNOWN;
  }

  private static long earlier(long one, long other) {
    return one == 0 || other == 0 ? Math.max(one, other) : Math.min(one, other);
  }

  /** The fields of the state. */
  public void fields(Fields fields) throws IOException {
    time = fields.of("time", time);
    looked = fields.of("looked", looked);
    active = fields.of("active", active);
    wait.fields(fields);
    beat = fields.of("beat", beat);
    asked = fields.of("asked", asked);
    arrived = fields.of("arrived", arrived);
  }
}
