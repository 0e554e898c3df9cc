package io.weir.jobs.message;

import io.weir.jobs.serde.Fields;
import java.io.IOException;

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
 * <p>If that is wrong, a message of the run with the higher epoch corrects it: any one of another
 * run, or, of the run that the one with the lower epoch followed, the first one of a later interval
 * after that one has been silent for {@link #SILENT_MS}. What it had sent until then may still
 * come, and does not count.
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

  private long epoch;
  private long until;
  private long heard;
  private boolean stopped;

  /** The higher epoch of a run before it; 0 if its own is the highest. */
  private long before;

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
      before = epochOf < epoch ? epoch : epochOf < before ? before : 0;
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
    boolean silent = came - heard >= SILENT_MS;
    if (epochOf > epoch) {
      return epochOf != before || (silent && end > heard);
    }
    long began = epochOf / 1000;
    boolean over = stopped || silent || (heard < began && began <= came);
    boolean later = end > Math.min(until, heard);
    return epochOf < epoch && over && later && came - end <= LATE_MS;
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
    before = fields.of("before", before);
  }
}
