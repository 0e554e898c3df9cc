package io.weir.jobs.ledger;

import com.google.protobuf.InvalidProtocolBufferException;
import io.weir.jobs.ledger.Interval.Part;
import io.weir.jobs.ledger.Run.Closed;
import io.weir.jobs.message.Idle;
import io.weir.jobs.message.KnownRun;
import io.weir.jobs.message.LedgerEvent;
import io.weir.jobs.message.RangeSet;
import io.weir.proto.ClosingRecord;
import io.weir.proto.LateInterval;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * The ledger of one worker: the messages received of each of its intervals. Times are ms from 1970.
 *
 * <p>Bounded: {@link #MAX_FINISHED} complete intervals, packed except for the newest, and {@link
 * #MAX_UNFINISHED} other intervals are kept in detail, and {@link #MAX_RUNS} runs of the agent;
 * intervals without any message, and intervals closed empty, are kept as ranges.
 */
final class WorkerLedger {
  static final int MAX_FINISHED = 500;
  static final int MAX_UNFINISHED = 5_000;

  /** The newest finished intervals, of which repeats and late batches may still come. */
  static final int MAX_UNPACKED = 4;

  /** Excess over the bounds from which on the ledger looks for intervals to pack or drop. */
  private static final int SLACK = 8;

  static final int MAX_RUNS = 64;

  /** Maximum number of sequence numbers that a row lists. */
  static final int MAX_NAMED = 100;

  static final int MAX_RANGES = 10_000;
  private static final int MAX_LOST_INTERVALS = 1_000;

  /** Offset of the last message read, -1 if none was read. */
  long offset = -1;

  /** Offset after the last message that Kafka had at its newest answer. */
  private long end;

  private final KnownRun newest = new KnownRun();

  /** The next interval to check by the clock; 0 before the first check. */
  long nextDue;

  /** Not part of the state: after a start, it is determined again. */
  private final transient Idle idle = new Idle();

  final TreeMap<Long, Interval> intervals = new TreeMap<>();
  final PackedIntervals packed = new PackedIntervals();
  private final TreeMap<Long, Run> runs = new TreeMap<>();

  /** Seconds with at least one message, from nextDue on. */
  final RangeSet covered = new RangeSet(MAX_RANGES);

  /** Seconds whose first row stated that no message had arrived. */
  final RangeSet declared = new RangeSet(MAX_RANGES);

  /**
   * Seconds of intervals whose first row stated that they were closed and empty, and about which
   * nothing else is kept. A later version of such a row lacks the agent's load and clock.
   */
  private final RangeSet empty = new RangeSet(MAX_RANGES);

  /** Seconds of intervals that are no longer kept in detail: their rows stay as they are. */
  private final RangeSet forgotten = new RangeSet(MAX_RANGES);

  /** Intervals that have changed since their row was written, or have no row yet. */
  private final TreeSet<Long> open = new TreeSet<>();

  /**
   * Whether the last run of the agent that began before {@code start} had announced its stop by
   * then.
   */
  boolean stoppedAt(long start) {
    Map.Entry<Long, Run> run =
        runs.entrySet().stream()
            .filter(entry -> began(entry.getKey(), entry.getValue()) <= start)
            .max(Comparator.comparingLong(WorkerLedger::rank))
            .orElse(null);
    Map.Entry<Long, Closed> closed = run == null ? null : run.getValue().closings.lastEntry();
    if (closed == null || !closed.getValue().record().getLast()) {
      return false;
    }
    return closed.getValue().start() < start
        || closed.getValue().record().getSource().startsWith("file:");
  }

  /** When a run began, ms. */
  private static long began(long epoch, Run run) {
    return Math.min(epoch / 1000, run.began); // an epoch is a time in µs
  }

  private static long rank(Map.Entry<Long, Run> run) {
    return Math.max(run.getKey(), run.getValue().rank);
  }

  /** Rank of the run with this epoch: that of a newer run is higher. */
  long rank(long epochOf) {
    Run run = runs.get(epochOf);
    return run == null ? epochOf : Math.max(epochOf, run.rank);
  }

  /**
   * Notes the partition's end offset in a new answer of Kafka's. If it is lower than before, the
   * probe was removed and enrolled again: offsets begin anew, and nothing was due meanwhile.
   */
  void listed(long newEnd) {
    if (newEnd < end) {
      offset = -1;
      nextDue = 0;
    }
    end = newEnd;
  }

  /**
   * The clock of the jobs' host was ahead, and it is {@code now}: intervals of this length are due
   * from now on. Some may have come that {@link #covered} lacks, but the ledger {@link #knows}
   * them.
   */
  void setBack(long now, int length) {
    nextDue = Math.min(nextDue, now / length * length);
    intervals.values().forEach(interval -> interval.touched = Math.min(interval.touched, now));
  }

  /** Whether a message of the interval at {@code start} has come. */
  boolean knows(long start) {
    return intervals.containsKey(start) || packed.contains(start) || empty.contains(start / 1000);
  }

  /** Whether no message of the partition was read and it was idle for longer than {@code grace}. */
  boolean idle(long end, long at, long grace) {
    return offset < 0 && idle.lasts(end, at, grace);
  }

  boolean reported() {
    return newest.epoch() != 0;
  }

  /** Whether the newest run announced its stop. */
  boolean stopped() {
    return newest.stopped();
  }

  /**
   * Adds a batch that arrives for the first time. Returns the intervals whose rows must be written
   * immediately.
   */
  Collection<Long> batch(LedgerEvent event, long now) {
    TreeSet<Long> due = new TreeSet<>();
    Run run = run(event, false, now, due);
    run.seen.add(event.sequence());
    Interval interval = interval(event, now);
    if (interval == null) {
      return due;
    }
    Part part = interval.part(event.epoch());
    part.batches++;
    part.records += event.records();
    part.packets += event.packets();
    part.octets += event.octets();
    part.reports.add(event.body());
    part.highest = Math.max(part.highest, event.sequence());
    changed(event.interval(), interval);
    if (part.closing != null) {
      count(run, part);
    } else {
      between(event.epoch(), run, run.closings.higherKey(event.sequence()));
    }
    return due;
  }

  /** A batch came again. */
  void repeat(LedgerEvent event, long now) {
    Interval interval = known(event.interval());
    if (interval != null) {
      interval.part(event.epoch()).repeated++;
      interval.touched = now;
      changed(event.interval(), interval);
    }
  }

  /** A closing record came. Returns the intervals whose rows must be written immediately. */
  Collection<Long> closing(LedgerEvent event, long now) throws InvalidProtocolBufferException {
    TreeSet<Long> due = new TreeSet<>();
    ClosingRecord record = ClosingRecord.parseFrom(event.body());
    Run run = run(event, record.getLast(), now, due);
    run.seen.add(event.sequence());
    ClosingRecord kept = record.toBuilder().clearLoad().clearExporters().build();
    run.addClosing(event.sequence(), new Closed(event.interval(), event.length(), kept));
    Interval interval = interval(event, now);
    if (interval != null) {
      Part part = interval.part(event.epoch());
      part.closing = record.toBuilder().clearEpochTotal().clearInterfaces().build();
      part.inferred = null;
      count(run, part);
      changed(event.interval(), interval);
      due.add(event.interval());
    }
    due.addAll(late(event, run, record, now));
    due.addAll(between(event.epoch(), run, event.sequence()));
    due.addAll(between(event.epoch(), run, run.closings.higherKey(event.sequence())));
    return due;
  }

  /**
   * Applies a closing record's data on earlier intervals. Returns the starts of the intervals that
   * it changed.
   */
  private Collection<Long> late(LedgerEvent event, Run run, ClosingRecord record, long now) {
    List<Long> changed = new ArrayList<>();
    long began = began(event.epoch(), run);
    for (LateInterval late : record.getLateList()) {
      long start = late.getIntervalStartMs();
      Interval interval = interval(start, event.length(), now);
      if (interval == null) {
        continue;
      }
      Part part = interval.part(event.epoch());
      part.lateBatches += Integer.toUnsignedLong(late.getBatches());
      part.lateRecords += late.getRecords();
      part.latePackets += late.getVolume().getPackets();
      part.lateOctets += late.getVolume().getOctets();
      part.beforeRun = start + event.length() <= began;
      changed(start, interval);
      changed.add(start);
    }
    return changed;
  }

  /**
   * Intervals that changed since their row was written, or that are overdue without a closing
   * record.
   */
  Collection<Long> changes(long now, long grace, boolean atEnd) {
    List<Long> due = new ArrayList<>();
    int surplus = open.size() - MAX_UNFINISHED;
    if (surplus > 0) { // of a clock that is ahead, say: they are not waited for
      List<Long> oldest = new ArrayList<>(open);
      oldest.sort((a, b) -> Long.compare(intervals.get(a).touched, intervals.get(b).touched));
      due.addAll(oldest.subList(0, surplus));
      return due;
    }
    for (long start : open) {
      Interval interval = intervals.get(start);
      boolean overdue =
          atEnd
              && start + interval.length + grace <= now
              && interval.touched + interval.length + grace <= now;
      // A run that began in an interval already written gets the time to close it.
      if (overdue || (interval.version > 0 && !interval.running())) {
        due.add(start);
      }
    }
    return due;
  }

  /** Records that the row of the interval at {@code start} was written. */
  void written(long start) {
    Interval interval = intervals.get(start);
    interval.version++;
    interval.changed = false;
    open.remove(start);
    if (interval.isEmpty()) {
      intervals.remove(start);
      empty.addRange(start / 1000, (start + interval.length) / 1000 - 1);
    }
  }

  /** Enforces the bounds on kept intervals and runs. */
  void forget(long now, long keepDeclared) {
    List<Long> finished = new ArrayList<>();
    List<Long> unfinished = new ArrayList<>();
    if (intervals.size() > MAX_UNPACKED + SLACK) {
      for (Map.Entry<Long, Interval> entry : intervals.entrySet()) {
        if (!entry.getValue().changed) {
          (entry.getValue().isFinished() ? finished : unfinished).add(entry.getKey());
        }
      }
    }
    List<PackedIntervals.Entry> pack = new ArrayList<>();
    for (long start : oldest(finished, MAX_UNPACKED)) {
      pack.add(new PackedIntervals.Entry(start, intervals.remove(start)));
    }
    if (!pack.isEmpty()) {
      packed.add(pack, MAX_FINISHED - MAX_UNPACKED, forgotten);
    }
    for (long start : oldest(unfinished, MAX_UNFINISHED)) {
      int length = intervals.remove(start).length;
      forgotten.addRange(start / 1000, (start + length) / 1000 - 1);
    }
    declared.removeBelow((now - keepDeclared) / 1000);
    empty.removeBelow((now - keepDeclared) / 1000);
    covered.removeBelow(nextDue / 1000);
  }

  /** All of these but the newest, by their last message, in its order. */
  private List<Long> oldest(List<Long> starts, int newest) {
    starts.sort(Comparator.comparingLong(start -> intervals.get(start).touched));
    return starts.subList(0, Math.max(0, starts.size() - newest));
  }

  /** The interval at {@code start}, null if nothing is kept about it. */
  private Interval known(long start) {
    if (packed.contains(start)) {
      unpack();
    }
    return intervals.get(start);
  }

  private void unpack() {
    packed.takeAll().forEach(entry -> intervals.put(entry.start(), entry.interval()));
  }

  /**
   * The run of a message; if it is newer than the known ones, the open intervals of those will not
   * get a closing record any more. {@code last} is whether the message announces the run's stop.
   */
  private Run run(LedgerEvent event, boolean last, long now, Collection<Long> due) {
    long came = event.came(now);
    long known = newest.epoch();
    boolean newer = newest.note(event.epoch(), event.until(), came, last);
    Run run = runs.get(event.epoch());
    if (run == null) {
      run = new Run(event.sequence() == 0 || (known != 0 && event.epoch() > known));
      if (runs.size() >= MAX_RUNS) {
        runs.remove(
            Collections.min(runs.entrySet(), Comparator.comparingLong(WorkerLedger::rank))
                .getKey());
      }
      long started = event.epoch() / 1000;
      run.began = started <= came ? started : came - event.length();
      runs.put(event.epoch(), run);
    }
    if (newer) {
      run.rank = Math.max(event.epoch(), known != 0 ? rank(known) + 1 : 0);
      abandonOthers(due);
      due.remove(event.interval()); // the new run will close it
    }
    return run;
  }

  /** Notes that only the newest run may still close intervals. */
  private void abandonOthers(Collection<Long> due) {
    for (Map.Entry<Long, Interval> entry : intervals.entrySet()) {
      for (Map.Entry<Long, Part> part : entry.getValue().parts.entrySet()) {
        if (part.getKey() != newest.epoch()
            && part.getValue().closing == null
            && !part.getValue().abandoned) {
          part.getValue().abandoned = true;
          changed(entry.getKey(), entry.getValue());
          due.add(entry.getKey());
        }
      }
    }
  }

  /** The interval of a message, null if the ledger no longer keeps it. */
  private Interval interval(LedgerEvent event, long now) {
    return interval(event.interval(), event.length(), now);
  }

  private Interval interval(long start, int length, long now) {
    long from = start / 1000;
    long to = (start + length) / 1000 - 1;
    Interval interval = known(start);
    if (interval == null) {
      if (forgotten.contains(from)) {
        return null;
      }
      interval = newInterval(start, length);
    }
    interval.touched = now;
    if (start >= nextDue) {
      covered.addRange(from, to);
    }
    return interval;
  }

  private Interval newInterval(long start, int length) {
    Interval interval = new Interval(length);
    interval.version = declared.contains(start / 1000) ? 1 : 0;
    if (empty.contains(start / 1000)) {
      interval.version = 1;
      closeEmpty(start, interval);
    }
    intervals.put(start, interval);
    return interval;
  }

  /**
   * Restores the part of the run that closed an empty interval: the newest one that had begun by
   * then and reached the interval.
   */
  private void closeEmpty(long start, Interval interval) {
    Map.Entry<Long, Run> by =
        runs.entrySet().stream()
            .filter(entry -> began(entry.getKey(), entry.getValue()) < start + interval.length)
            .filter(entry -> reached(entry.getValue(), start))
            .max(Comparator.comparingLong(WorkerLedger::rank))
            .orElse(null);
    ClosingRecord.Builder closing = ClosingRecord.newBuilder();
    if (by != null) {
      ClosingRecord last = by.getValue().closings.lastEntry().getValue().record();
      closing.setAgentVersion(last.getAgentVersion()).setSource(last.getSource());
    }
    interval.part(by == null ? newest.epoch() : by.getKey()).closing = closing.build();
  }

  private static boolean reached(Run run, long start) {
    Map.Entry<Long, Closed> last = run.closings.lastEntry();
    return last != null && last.getValue().start() >= start;
  }

  private void changed(long start, Interval interval) {
    interval.changed = true;
    open.add(start);
  }

  /** Counts the missing batches of a closed part. */
  private static void count(Run run, Part part) {
    long first = part.closing.getFirstSequence();
    long count = Integer.toUnsignedLong(part.closing.getBatches());
    long last = first + count - 1;
    part.missing = count - run.seen.countIn(first, last);
    part.missingSequences = run.seen.missingIn(first, last, MAX_NAMED);
  }

  /**
   * Compares the closing record with {@code sequence} with the known one before it: computes the
   * interfaces' counters in between and, if sequence numbers are missing, reconstructs the missing
   * closing records from the sums over the epoch. If several intervals were lost, each gets the
   * packets of its received batches, and the last one gets the remainder. Returns the intervals
   * that changed.
   */
  private Collection<Long> between(long epochOf, Run run, Long sequence) {
    List<Long> changed = new ArrayList<>();
    if (sequence == null) {
      return changed;
    }
    Closed closed = run.closings.get(sequence);
    if (closed == null) { // it came after so many later ones that the run does not keep it
      return changed;
    }
    Map.Entry<Long, Closed> before = run.closings.lowerEntry(sequence);
    boolean first = before == null;
    if (first && !run.fromStart) {
      return changed;
    }
    Interval own = known(closed.start());
    if (own != null && closed.record().getInterfacesCount() > 0) {
      Part part = own.part(epochOf);
      long packets = closed.interfacePackets() - (first ? 0 : before.getValue().interfacePackets());
      long octets = closed.interfaceOctets() - (first ? 0 : before.getValue().interfaceOctets());
      part.interfacePackets = Math.max(0, packets);
      part.interfaceOctets = Math.max(0, octets);
    }
    long from = first ? 0 : before.getKey() + 1;
    long to = closed.record().getFirstSequence() - 1;
    if (from > to) {
      return changed;
    }
    unpack();
    long numbers = to - from + 1 - run.seen.countIn(from, to);
    List<Long> lost = lost(epochOf, closed, first ? null : before.getValue(), numbers);
    if (lost.isEmpty()) {
      return changed;
    }
    Sums rest = new Sums();
    rest.addFlowing(closed.record().getEpochTotal(), 1);
    rest.addFlowing(closed.record().getInterval(), -1);
    for (LateInterval late : closed.record().getLateList()) {
      rest.subtractPublished(late.getVolume().getPackets(), late.getVolume().getOctets());
    }
    if (!first) {
      rest.addFlowing(before.getValue().record().getEpochTotal(), -1);
    }
    long lastLost = lost.get(lost.size() - 1);
    for (long start : lost) {
      Interval interval = intervals.get(start);
      if (interval == null) {
        interval = newInterval(start, closed.length());
      }
      Part part = interval.part(epochOf);
      part.abandoned = true;
      if (start != lastLost) {
        Sums came = new Sums();
        came.subtractPublished(-part.packets, -part.octets);
        rest.subtractPublished(part.packets, part.octets);
        part.inferred = came.toMessage();
      } else {
        rest.clamp();
        part.inferred = rest.toMessage();
        // Each lost closing record accounts for one of the missing numbers; the highest number is
        // this record's own.
        part.missing = Math.max(0, numbers - lost.size());
        part.missingSequences =
            run.seen.missingIn(from, to - 1, (int) Math.min(MAX_NAMED, part.missing));
      }
      changed(start, interval);
      changed.add(start);
      if (start >= nextDue) {
        covered.addRange(start / 1000, (start + interval.length) / 1000 - 1);
      }
    }
    return changed;
  }

  /**
   * Intervals before {@code closed} whose closing record is missing. If they are more than the
   * missing sequence numbers, time has jumped at an unknown one of them: then they are those with
   * received batches and the last one.
   */
  private List<Long> lost(long epochOf, Closed closed, Closed before, long numbers) {
    TreeSet<Long> lost = new TreeSet<>();
    long end = closed.start() - closed.record().getSkippedIntervals() * closed.length();
    if (before != null) {
      long from = before.start() + before.length();
      long first = Math.max(from, end - (long) MAX_LOST_INTERVALS * closed.length());
      for (long start = first; start < end; start += closed.length()) {
        lost.add(start);
      }
    } else {
      // The run's first closing record was lost: its intervals are those with received batches.
      for (Map.Entry<Long, Interval> entry : intervals.headMap(closed.start()).entrySet()) {
        if (entry.getValue().parts.containsKey(epochOf)) {
          lost.add(entry.getKey());
        }
      }
      if (lost.isEmpty()) {
        lost.add(end - closed.length());
      }
    }
    lost.removeIf(
        start -> {
          Interval interval = intervals.get(start);
          Part part = interval == null ? null : interval.parts.get(epochOf);
          return (part != null && part.closing != null)
              || forgotten.contains(start / 1000)
              || empty.contains(start / 1000);
        });
    if (lost.size() > numbers) {
      long last = lost.last();
      lost.removeIf(start -> start != last && !hasBatches(start, epochOf));
    }
    return new ArrayList<>(lost);
  }

  private boolean hasBatches(long start, long epochOf) {
    Interval interval = intervals.get(start);
    Part part = interval == null ? null : interval.parts.get(epochOf);
    return part != null && part.batches > 0;
  }
}
