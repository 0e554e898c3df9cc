package io.weir.jobs.message;

import io.weir.jobs.serde.Fields;
import java.io.IOException;
import java.util.Comparator;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.stream.Stream;

/**
 * The time that windows follow: the wall clock, or, while the jobs read records later than the
 * broker received them, the time at which it received them, taken from the worker that is furthest
 * behind. A backlog therefore produces the same windows as live reading would have produced. Times
 * are ms from 1970.
 *
 * <p>After a downtime of the jobs, the time stands still until messages of all known workers have
 * been read, or some seconds have passed since the first; it does not wait longer for silent
 * workers. It never goes backwards.
 *
 * <p>A worker is an array of numbers; this class uses {@link #CAME} and {@link #READ}, which are 0
 * until a message of the worker is read. A known worker must keep its array. It searches the
 * workers only when a message of the one furthest behind was read, or that worker has fallen
 * silent, so that a message costs about the same for any number of workers.
 */
public final class StreamClock {
  /** Of a worker: when the broker received the newest message, and when the jobs read it. */
  public static final int CAME = 2;

  public static final int READ = 3;

  /** A message that is read this much later than the broker received it belongs to a backlog. */
  private static final long BEHIND_MS = 15_000;

  /** How long to wait for a silent worker while others send. */
  private static final long SILENT_MS = 15_000;

  /** How long to wait for the first worker after a downtime of the jobs. */
  private static final long START_MS = 120_000;

  /**
   * How long a window accepts late data: five minutes after its end, plus the time that may pass
   * before a backlog is detected.
   */
  public static final long KEEP_MS = 300_000 + BEHIND_MS + SILENT_MS;

  /**
   * How far ahead of the time a window may begin and still be kept until the time has come. Of a
   * window further ahead, a probe's rows are written and closed; rows over all probes are written
   * only if all probes have closed it: others may reach it long after its data is gone.
   */
  public static final long AHEAD_MS = 900_000;

  /** Value of {@link #furthest}: no worker is behind. */
  private static final long NONE = Long.MAX_VALUE;

  /** Value of a number derived from all workers: it must be derived again. */
  private static final long UNKNOWN = -1;

  /** The time; 0 before the first call. */
  private long time;

  /** The last call, by the wall clock. */
  private long looked;

  /** Start and end, by the wall clock, of the wait for silent workers. */
  private long waitingSince;

  private long waitingUntil;

  /**
   * {@link #CAME} of the worker furthest behind; {@link #NONE} if no worker is behind, {@link
   * #UNKNOWN} if the workers must be searched.
   */
  private transient long furthest = UNKNOWN;

  /** End, by the wall clock, of the wait for that worker. */
  private transient long furthestUntil;

  /**
   * Number of workers to wait for that have sent nothing yet; {@link #UNKNOWN} if they must be
   * counted.
   */
  private transient long unheard = UNKNOWN;

  /** Notes that a message of a worker was read, which the broker received at {@code appended}. */
  public void heard(long[] worker, long appended, long now) {
    long came = appended == RawMessage.NO_TIME ? now : appended;
    waitingUntil = Math.min(waitingUntil, now + SILENT_MS);
    if (unheard != UNKNOWN && worker[READ] > 0 && worker[READ] < waitingSince) {
      unheard--;
    }
    if (worker[CAME] == furthest) {
      furthest = UNKNOWN;
    }
    worker[CAME] = Math.max(worker[CAME], came);
    worker[READ] = now;
    if (furthest != UNKNOWN && worker[CAME] < furthest && isBehind(worker, now)) {
      furthest = worker[CAME];
      furthestUntil = now + SILENT_MS;
    }
  }

  /**
   * Advances the time, and returns it. Call it before {@link #heard} as well: otherwise the first
   * message of a backlog would hide the downtime.
   *
   * @param workers all known workers
   * @param unknown whether there are other, unknown workers
   */
  public long advance(long now, Supplier<Stream<long[]>> workers, BooleanSupplier unknown) {
    if (time == 0) {
      time = now;
      looked = now;
    }
    if (now - looked > BEHIND_MS + SILENT_MS) { // the jobs were away
      waitingSince = now;
      waitingUntil = now + START_MS;
      unheard = UNKNOWN;
    }
    looked = now;
    if (furthest == UNKNOWN || now > furthestUntil) {
      search(now, workers.get());
    }
    long to = Math.min(now, furthest);
    if (now >= waitingUntil) {
      waitingUntil = 0;
    } else if (unknown.getAsBoolean() || unheard(workers) > 0) {
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
  private void search(long now, Stream<long[]> workers) {
    long[] found =
        workers
            .filter(worker -> isBehind(worker, now))
            .min(Comparator.comparingLong(worker -> worker[CAME]))
            .orElse(null);
    furthest = found == null ? NONE : found[CAME];
    furthestUntil = found == null ? Long.MAX_VALUE : found[READ] + SILENT_MS;
  }

  private long unheard(Supplier<Stream<long[]>> workers) {
    if (unheard == UNKNOWN) {
      unheard = workers.get().filter(worker -> worker[READ] < waitingSince).count();
    }
    return unheard;
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

  private static boolean isBehind(long[] worker, long now) {
    return now - worker[READ] <= SILENT_MS && worker[READ] - worker[CAME] > BEHIND_MS;
  }

  /**
   * Restores the state that a subtask kept; with several subtasks the earliest time, so that no
   * window ends too early.
   */
  public void restore(StreamClock kept) {
    time = earlier(time, kept.time);
    looked = earlier(looked, kept.looked);
    waitingSince = Math.max(waitingSince, kept.waitingSince);
    waitingUntil = Math.max(waitingUntil, kept.waitingUntil);
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
    waitingSince = fields.of("waitingSince", waitingSince);
    waitingUntil = fields.of("waitingUntil", waitingUntil);
  }
}
