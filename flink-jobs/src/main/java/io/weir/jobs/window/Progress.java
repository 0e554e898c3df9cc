package io.weir.jobs.window;

import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.KnownRun;
import io.weir.jobs.message.RawMessage;
import io.weir.jobs.message.Retired;
import io.weir.jobs.message.StreamClock;
import io.weir.jobs.serde.FieldSerializer;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.TreeMap;
import org.apache.flink.api.common.state.ListStateDescriptor;

/**
 * The progress of every probe, according to its closing records, until it has been removed ({@link
 * Retired}). All buckets of a subtask share one instance, and its methods cost about the same for
 * any number of probes.
 */
final class Progress {
  /** Each subtask keeps all of it, because buckets may move between subtasks. */
  static final ListStateDescriptor<Progress> STATE =
      new ListStateDescriptor<>("progress", new FieldSerializer<>(Progress.class));

  /** A mark of a worker, see {@link WindowMessage.Kind#MARK}. */
  record Mark(int worker, int workers, long epoch, long until, long appended, boolean last) {
    static Mark of(long[] data) {
      return new Mark((int) data[0], (int) data[1], data[2], data[3], data[4], data[5] != 0);
    }
  }

  /** A probe: its newest run, how many workers that has, and the newest run of each worker. */
  private static final class Probe {
    KnownRun newest = new KnownRun();
    int workers;
    final TreeMap<Integer, KnownRun> known = new TreeMap<>();

    /** The time up to which every worker has closed its intervals. */
    long until = Long.MIN_VALUE;

    private long closed() {
      long closed = Long.MAX_VALUE;
      for (int worker = 0; worker < workers; worker++) {
        KnownRun of = known.get(worker);
        closed = Math.min(closed, of == null ? Long.MIN_VALUE : of.until());
      }
      return closed;
    }
  }

  private final HashMap<String, Probe> probes = new HashMap<>();
  private int expected;
  private final StreamClock clock = new StreamClock();

  /** Number of probes by {@link Probe#until}. */
  private final transient TreeMap<Long, Integer> reported = new TreeMap<>();

  private transient long turn;

  /** The newest list of the probes, if {@link #hasList}. */
  private final transient HashSet<String> listed = new HashSet<>();

  private transient boolean hasList;

  /** Number of listed probes that had sent no closing record when the list arrived. */
  private transient int silent;

  private final transient Retired retired = new Retired();

  /** Notes that a worker has closed its intervals; closing records of an older run are ignored. */
  void mark(String name, Mark mark, long now) {
    advance(now);
    Probe probe = probes.get(name);
    if (probe == null) {
      probe = new Probe();
      probes.put(name, probe);
      count(probe, 1);
    }
    long before = probe.until;
    count(probe, -1);
    KnownRun known = probe.known.computeIfAbsent(mark.worker, key -> new KnownRun());
    long came = RawMessage.came(mark.appended, now);
    known.note(mark.epoch, mark.until, came, mark.last);
    probe.newest.note(mark.epoch, mark.until, came, mark.last);
    if (mark.epoch == probe.newest.epoch()) {
      probe.workers = Math.max(1, mark.workers);
    }
    probe.until = probe.closed();
    count(probe, 1);
    if (probe.until < before) {
      turn++;
    }
  }

  /** Notes how far the messages of a worker have been read, see {@link WindowMessage.Kind#READ}. */
  void read(String name, int worker, long offset, long appended, long now) {
    advance(now);
    clock.heard(name, worker, offset, appended, now);
  }

  private void count(Probe probe, int by) {
    reported.merge(probe.until, by, (one, other) -> one + other == 0 ? null : one + other);
  }

  /** Restores the state that this subtask or another one kept. */
  void restore(Progress kept) {
    expected = Math.max(expected, kept.expected);
    clock.restore(kept.clock);
    kept.probes.forEach(
        (name, probe) -> {
          Probe own = probes.computeIfAbsent(name, key -> new Probe());
          if (KnownRun.later(probe.newest, own.newest) == probe.newest) {
            own.newest = probe.newest;
            own.workers = probe.workers;
          }
          probe.known.forEach((worker, one) -> own.known.merge(worker, one, KnownRun::later));
          own.until = own.closed();
        });
    reported.clear();
    probes.values().forEach(probe -> count(probe, 1));
  }

  /**
   * Takes in Kafka's list of the enrolled probes, and forgets those that have been removed.
   *
   * @param at when Kafka was asked
   * @param ends of the partitions, see {@link Enrolment#ends}
   */
  void list(List<String> names, long at, long[] ends, long now) {
    advance(now);
    List<String> removed = retired.among(probes.keySet(), names, now);
    for (String name : removed) {
      count(probes.remove(name), -1);
    }
    clock.forget(removed);
    if (names.size() != expected || !removed.isEmpty()) {
      turn++;
    }
    clock.listed(at, names, ends, now);
    expected = names.size();
    listed.clear();
    listed.addAll(names);
    silent = (int) names.stream().filter(name -> !probes.containsKey(name)).count();
    hasList = true;
  }

  /** Whether a list of the probes has arrived since the start. */
  boolean hasList() {
    return hasList;
  }

  /** Whether the probe is enrolled, or was until recently. */
  boolean knows(String name) {
    return listed.contains(name) || probes.containsKey(name);
  }

  /** The number of these probes. */
  int known() {
    return probes.size() + silent;
  }

  int expected() {
    return expected;
  }

  /** Advances the time that windows follow, and returns it. */
  long advance(long now) {
    return clock.advance(now);
  }

  /** Whether every worker of the probe has closed its intervals up to {@code end}. */
  boolean complete(String name, long end) {
    Probe probe = probes.get(name);
    return probe != null && probe.until >= end;
  }

  /** Number of probes that are complete up to {@code end}. */
  int reported(long end) {
    int count = 0;
    for (int probes : reported.tailMap(end).values()) {
      count += probes;
    }
    return count;
  }

  /**
   * A number that changes whenever a complete probe may become incomplete, or the number of
   * expected probes changes. While it and {@link #reported} do not change, the same probes are
   * complete.
   */
  long turn() {
    return turn;
  }
}
