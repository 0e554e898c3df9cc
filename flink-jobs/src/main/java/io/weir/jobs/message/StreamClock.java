package io.weir.jobs.message;

import io.weir.jobs.serde.Fields;
import io.weir.jobs.serde.Longs;
import java.io.IOException;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * The time that windows follow: the wall clock, or, while Kafka holds messages that the jobs have
 * not read, the time at which the broker received the messages that they read, taken from the
 * partition that is furthest behind. A backlog therefore produces the same windows as live reading
 * would have produced, at any speed and with any pause. Times are ms from 1970.
 *
 * <p>Kafka's list of the probes says where each partition ends and when its newest message came
 * ({@link #listed}); while no list comes, the clock takes it that messages are left if the last one
 * was read late. It does not wait for a partition of which the jobs read nothing while they read
 * others for {@link #SILENT_MS}, as when its messages cannot be read.
 *
 * <p>After a start or a downtime of the jobs, the time stands still until a list has come, or some
 * seconds have passed since the first message. It goes backwards only where the clock of the jobs'
 * host does, by more than {@link #CLOCK_MS}: that clock was ahead until then.
 *
 * <p>It searches the partitions only when a message of the one furthest behind was read, that one
 * has fallen silent, or a list came, so that a message costs about the same for any number of them.
 */
public final class StreamClock {
  /** Of a partition: when the broker received the newest message that the jobs have read. */
  private static final int CAME = 0;

  /** How long the jobs had been reading ({@link #active}) when they read it. */
  private static final int READ = 1;

  /** When the broker received the newest message that Kafka has, as far as known. */
  private static final int NEWEST = 2;

  /** Offset after the newest message that the jobs have read. */
  private static final int NEXT = 3;

  /** Offset after the newest message that Kafka has, as far as known. */
  private static final int END = 4;

  /** How many numbers there are of each partition. */
  private static final int STRIDE = END + 1;

  /**
   * A partition with unread messages is behind if the newest came this much later than the newest
   * one read, or has been there for so long.
   */
  private static final long BEHIND_MS = 15_000;

  /**
   * How long a window accepts late data: five minutes after its end, plus the time that may pass
   * before a backlog is detected.
   */
  public static final long KEEP_MS = 300_000 + 2 * BEHIND_MS;

  /** How long to wait for a list after the first message that follows a downtime. */
  private static final long FIRST_MS = 15_000;

  /** How long to wait for a partition of which nothing is read while the jobs read others. */
  private static final long SILENT_MS = 60_000;

  /** How long to wait for a list and the first message after a downtime of the jobs. */
  private static final long START_MS = 120_000;

  /** Without a list for so long, the clock no longer relies on the last one. */
  private static final long LISTED_MS = 60_000;

  /**
   * Reading pauses where no message is read for longer: in a backlog, and where the messages that
   * are read have just come.
   */
  private static final long PAUSE_MS = 1_000;

  private static final long LIVE_PAUSE_MS = 10_000;

  /** Value of {@link #furthest}: no partition is behind. */
  private static final long NONE = Long.MAX_VALUE;

  /** Value of {@link #furthest}: the partitions must be searched. */
  private static final long UNKNOWN = -1;

  /**
   * How far ahead of the time a window may begin and still be kept until the time has come. Rows of
   * a window further ahead are written only if the probe, or all probes, have closed it by the
   * broker's clock, so that the jobs' clock is wrong: others may reach it long after its data is
   * gone.
   */
  public static final long AHEAD_MS = 900_000;

  /**
   * How far the clock of an agent may be ahead of the broker's, or that of the jobs' host ahead of
   * its own later word, before it is doubted.
   */
  public static final long CLOCK_MS = 60_000;

  /** The time; 0 before it is known. */
  private long time;

  /** The last call, by the wall clock. */
  private long looked;

  /**
   * How long the jobs have been reading, without pauses, and the last reading by the wall clock.
   */
  private long active;

  private long beat;

  /** Begin and end of the wait for a list, by the wall clock. */
  private long waitingSince;

  private long waitingUntil;

  /** When Kafka was asked for the newest list, and when that arrived. */
  private long asked;

  private long arrived;

  /** By probe, {@link #STRIDE} numbers for each partition of its topic. */
  private final HashMap<String, long[]> partitions = new HashMap<>();

  /**
   * {@link #CAME} of the partition furthest behind, 0 if nothing of it was read yet; or {@link
   * #NONE}, {@link #UNKNOWN}.
   */
  private transient long furthest = UNKNOWN;

  /** {@link #active} at the end of the wait for that partition. */
  private transient long furthestUntil;

  /** Notes that a message was read, which the broker received at {@code appended}. */
  public void heard(String probe, int partition, long offset, long appended, long now) {
    long came = RawMessage.came(appended, now);
    long pause = now - came < BEHIND_MS ? LIVE_PAUSE_MS : PAUSE_MS;
    active += Math.max(0, Math.min(now - beat, pause));
    beat = now;
    waitingUntil = Math.min(waitingUntil, now + FIRST_MS);
    long[] of = of(probe, partition);
    int at = partition * STRIDE;
    if (of[at + CAME] == furthest) {
      furthest = UNKNOWN;
    }
    of[at + CAME] = Math.max(of[at + CAME], came);
    of[at + NEXT] = offset + 1;
    of[at + READ] = active;
    if (now - arrived > LISTED_MS) {
      of[at + NEWEST] = now;
      of[at + END] = offset + 2;
    }
    if (furthest != UNKNOWN && of[at + CAME] < furthest && isBehind(of, at)) {
      furthest = of[at + CAME];
      furthestUntil = active + SILENT_MS;
    }
  }

  /** The numbers of a probe that has this partition. */
  private long[] of(String probe, int partition) {
    long[] known = partitions.get(probe);
    int length = (partition + 1) * STRIDE;
    if (known == null || known.length < length) {
      known = known == null ? new long[length] : Arrays.copyOf(known, length);
      partitions.put(probe, known);
    }
    return known;
  }

  /**
   * Takes in a list of Kafka's.
   *
   * @param at when Kafka was asked
   * @param names of the probes
   * @param ends of the partitions, see {@link Enrolment#ends}
   */
  public void listed(long at, List<String> names, long[] ends, long now) {
    Set<String> listed = Set.copyOf(names);
    partitions.forEach(
        (probe, of) -> {
          if (!listed.contains(probe)) { // its messages cannot be read any more
            for (int place = END; place < of.length; place += STRIDE) {
              of[place] = 0;
            }
          }
        });
    Enrolment.forEnds(names, ends, this::end);
    asked = at;
    arrived = now;
    furthest = UNKNOWN;
  }

  private void end(String probe, int partition, long end, long came) {
    if (came > 0) {
      long[] of = of(probe, partition);
      int at = partition * STRIDE;
      if (of[at + END] <= of[at + NEXT]) {
        of[at + READ] = active; // nothing was unread: the wait for what may be begins
      }
      of[at + NEWEST] = came;
      of[at + END] = end;
    }
  }

  /**
   * Advances the time, and returns it. Call it before {@link #heard} as well: otherwise the first
   * message of a backlog would hide the downtime.
   */
  public long advance(long now) {
    if (now < looked - CLOCK_MS) {
      setBack(now);
    } else if (now - looked > 2 * BEHIND_MS) { // the jobs were away
      waitingSince = now;
      waitingUntil = now + START_MS;
    }
    looked = now;
    if (furthest == UNKNOWN || active > furthestUntil) {
      search();
    }
    if (now >= waitingUntil) {
      waitingUntil = 0;
    } else if (asked < waitingSince) {
      return time;
    }
    time = Math.max(time, Math.min(now, furthest));
    return time;
  }

  /** The clock of the jobs' host was ahead, and is right again. */
  private void setBack(long now) {
    if (time > now) {
      time = 0; // it is not known yet
    }
    beat = Math.min(beat, now);
    asked = Math.min(asked, now);
    arrived = Math.min(arrived, now);
    waitingSince = Math.min(waitingSince, now);
    waitingUntil = Math.min(waitingUntil, now + START_MS);
  }

  /** Forgets the partitions of some probes. */
  public void forget(Collection<String> probes) {
    if (partitions.keySet().removeAll(probes)) {
      furthest = UNKNOWN;
    }
  }

  /** Finds the partition furthest behind. */
  private void search() {
    furthest = NONE;
    furthestUntil = Long.MAX_VALUE;
    for (long[] of : partitions.values()) {
      for (int at = 0; at < of.length; at += STRIDE) {
        if (of[at + CAME] < furthest && isBehind(of, at)) {
          furthest = of[at + CAME];
          furthestUntil = of[at + READ] + SILENT_MS;
        }
      }
    }
  }

  /**
   * The end of an interval, but no later than {@link #CLOCK_MS} after the broker received the
   * record that closes it: a clock that is ahead cannot have closed what has not come yet.
   */
  public static long closed(long end, long appended) {
    return appended == RawMessage.NO_TIME ? end : Math.min(end, appended + CLOCK_MS);
  }

  /**
   * The time at which windows get data that the broker received at {@code appended}: while the
   * clock waits for other partitions, this is the time at which live jobs would have read the data.
   */
  public static long arrived(long time, long now, long appended) {
    return Math.max(time, Math.min(now, RawMessage.came(appended, now)));
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

  private boolean isBehind(long[] of, int at) {
    long newest = of[at + NEWEST];
    long came = of[at + CAME];
    return of[at + END] > of[at + NEXT]
        && (newest - came > BEHIND_MS || asked - newest > BEHIND_MS)
        && active - of[at + READ] <= SILENT_MS;
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
    asked = Math.max(asked, kept.asked);
    arrived = Math.max(arrived, kept.arrived);
    waitingSince = Math.max(waitingSince, kept.waitingSince);
    waitingUntil = Math.max(waitingUntil, kept.waitingUntil);
    kept.partitions.forEach(
        (probe, of) -> {
          long[] own = of(probe, of.length / STRIDE - 1);
          for (int at = 0; at < of.length; at += STRIDE) {
            if (of[at + CAME] >= own[at + CAME]) {
              System.arraycopy(of, at, own, at, STRIDE);
            }
          }
        });
    furthest = UNKNOWN;
  }

  private static long earlier(long one, long other) {
    return one == 0 || other == 0 ? Math.max(one, other) : Math.min(one, other);
  }

  /** The fields of the state, without the partitions. */
  public void fields(Fields fields) throws IOException {
    time = fields.of("time", time);
    looked = fields.of("looked", looked);
    active = fields.of("active", active);
    beat = fields.of("beat", beat);
    fieldsOfLists(fields);
  }

  private void fieldsOfLists(Fields fields) throws IOException {
    asked = fields.of("asked", asked);
    arrived = fields.of("arrived", arrived);
    waitingSince = fields.of("waitingSince", waitingSince);
    waitingUntil = fields.of("waitingUntil", waitingUntil);
  }

  /** Writes the partitions. */
  public void writePartitions(DataOutputView out) throws IOException {
    out.writeInt(partitions.size());
    for (Map.Entry<String, long[]> probe : partitions.entrySet()) {
      out.writeUTF(probe.getKey());
      Longs.write(probe.getValue(), probe.getValue().length, out);
    }
  }

  /** Reads the partitions. */
  public void readPartitions(DataInputView in) throws IOException {
    for (int left = in.readInt(); left > 0; left--) {
      partitions.put(in.readUTF(), Longs.read(in));
    }
  }
}
