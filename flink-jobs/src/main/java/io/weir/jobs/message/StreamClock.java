package io.weir.jobs.message;

import io.weir.jobs.serde.Fields;
import java.io.IOException;
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
 * <p>A worker is an array of numbers, of which {@link #CAME} and {@link #READ} are this class's.
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

  /** The time; 0 before the first look. */
  private long time;

  /** The last look, by the clock on the wall. */
  private long looked;

  /**
   * Since when and until when, by the clock on the wall, workers that are not heard are waited for.
   */
  private long waitingSince;

  private long waitingUntil;

  /** Whether some worker's records are read later than they came. */
  private boolean behind;

  /** A message of a worker was read, which came at {@code appended}. */
  public void heard(long[] worker, long appended, long now) {
    long came = appended == RawMessage.NO_TIME ? now : appended;
    behind |= now - came > BEHIND_MS;
    waitingUntil = Math.min(waitingUntil, now + SILENT_MS);
    worker[CAME] = Math.max(worker[CAME], came);
    worker[READ] = now;
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
    }
    looked = now;
    boolean waiting = now < waitingUntil;
    long to = now;
    if (waiting || behind) {
      long furthest =
          workers
              .get()
              .filter(worker -> isBehind(worker, now))
              .mapToLong(worker -> worker[CAME])
              .min()
              .orElse(Long.MAX_VALUE);
      behind = furthest != Long.MAX_VALUE;
      to = Math.min(to, furthest);
    }
    if (waiting
        && (unknown.getAsBoolean()
            || workers.get().anyMatch(worker -> worker[READ] < waitingSince))) {
      to = time;
    }
    if (!waiting) {
      waitingUntil = 0;
    }
    time = Math.max(time, to);
    return time;
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

  /** The same, to be changed on its own. */
  public StreamClock copy() {
    StreamClock copy = new StreamClock();
    copy.time = time;
    copy.looked = looked;
    copy.waitingSince = waitingSince;
    copy.waitingUntil = waitingUntil;
    copy.behind = behind;
    return copy;
  }

  /** What is kept. */
  public void fields(Fields fields) throws IOException {
    time = fields.of(time);
    looked = fields.of(looked);
    waitingSince = fields.of(waitingSince);
    waitingUntil = fields.of(waitingUntil);
    behind = fields.of(behind);
  }
}
