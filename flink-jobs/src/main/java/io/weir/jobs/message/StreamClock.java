package io.weir.jobs.message;

import io.weir.jobs.serde.Fields;
import java.io.IOException;
import java.util.Comparator;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.stream.Stream;

/**
 * The time that windows go by: the clock on the wall, but while records are read later than they
 * came, the time at which they came; of several workers, that of the one furthest behind. So a
 * backlog makes the windows that live reading would have made. Times are ms from 1970.
 *
 * <p>After the jobs were away, the time stands still until all known workers were heard, or some
 * seconds have passed since the first was; a worker that is silent for as long is not waited for.
 * It never goes back.
 *
 * <p>A worker is an array of numbers, of which {@link #CAME} and {@link #READ} are this class's, 0
 * before the worker is heard. A known worker keeps its array. The workers are searched only when
 * the one furthest behind was heard or has fallen silent, so that a message costs about the same
 * whatever their number.
 */
public final class StreamClock {
  /** Of a worker: when the broker took in the newest message, and when that was read. */
  public static final int CAME = 2;

  public static final int READ = 3;

  /** What is read so much later than it came is of a backlog. */
  private static final long BEHIND_MS = 15_000;

  /** For how long a worker is waited for that is not heard, while others are. */
  private static final long SILENT_MS = 15_000;

  /** For how long the first worker is waited for after the jobs were away. */
  private static final long START_MS = 120_000;

  /**
   * For how long a window takes in what comes late: five minutes after its end, and what may pass
   * before it is noticed that records are read later than they came.
   */
  public static final long KEEP_MS = 300_000 + BEHIND_MS + SILENT_MS;

  /** Of {@link #furthest}: no worker is behind. */
  private static final long NONE = Long.MAX_VALUE;

  /** Of a number that is derived from all workers: it must be derived again. */
  private static final long UNKNOWN = -1;

  /** The time; 0 before the first look. */
  private long time;

  /** The last look, by the clock on the wall. */
  private long looked;

  /**
   * Since when and until when, by the clock on the wall, workers that are not heard are waited for.
   */
  private long waitingSince;

  private long waitingUntil;

  /**
   * {@link #CAME} of the worker furthest behind; {@link #NONE} if no worker is behind, {@link
   * #UNKNOWN} if the workers must be searched.
   */
  private transient long furthest = UNKNOWN;

  /** Until when, by the clock on the wall, that worker is waited for. */
  private transient long furthestUntil;

  /**
   * Number of workers that are waited for and were not heard; {@link #UNKNOWN} if they must be
   * counted.
   */
  private transient long unheard = UNKNOWN;

  /** Records that a message of a worker was read, which the broker took in at {@code appended}. */
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
   * Moves the time, and returns it. Call it before {@link #heard}, too: a first word of a backlog
   * would hide that the jobs were away.
   *
   * @param workers all that are known
   * @param unknown whether there are workers that are not known
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
   * When a window that ends at {@code end} began to be filled: the time, but where that stands
   * still or lags, no earlier than records of the window can have come. Only a window that is ahead
   * of the clock on the wall is ahead.
   */
  public static long began(long time, long now, long end) {
    return Math.max(time, Math.min(now, end));
  }

  private static boolean isBehind(long[] worker, long now) {
    return now - worker[READ] <= SILENT_MS && worker[READ] - worker[CAME] > BEHIND_MS;
  }

  /**
   * Takes over the state that a subtask kept; of several subtasks the earliest time, lest a window
   * ends too early.
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
    time = fields.of(time);
    looked = fields.of(looked);
    waitingSince = fields.of(waitingSince);
    waitingUntil = fields.of(waitingUntil);
  }
}
