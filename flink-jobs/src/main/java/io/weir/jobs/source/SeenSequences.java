package io.weir.jobs.source;

import io.weir.jobs.message.RangeSet;
import io.weir.jobs.message.Retired;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Which messages have been accepted, by (topic kind, probe, worker, epoch): the sequence numbers as
 * ranges. A number that has been added before identifies a repeat. It keeps ranges rather than the
 * highest number, because dead letters and spooled messages come back out of order.
 *
 * <p>Bounded by {@link #MAX_RANGES} for each probe. Beyond it, the run that grows closes its lowest
 * gap: the numbers in it count as seen, and their messages, should they still come, as repeats; so
 * the ledger counts them as lost, and nothing is counted twice. If that run has no gap, the probe's
 * run not used for longest closes one; if that has none, it is forgotten. So is a run not used for
 * {@link Retired#LATE_MS}, and with it a probe that has been removed.
 */
public final class SeenSequences {
  /** Ranges remembered for each probe, over all its runs, of which each has one at least. */
  public static final int MAX_RANGES = 10_000;

  /** The worker that writes one partition. {@code kind} is the topic's kind. */
  public record Worker(TopicKind kind, String probe, int worker) {}

  /** One entry of the state: one run of one worker. */
  public record Entry(Worker worker, long epoch, long touched, long[] ranges) {}

  private record Key(TopicKind kind, int worker, long epoch) {}

  private static final class Run {
    final RangeSet sequences = new RangeSet(Integer.MAX_VALUE);
    long touched;
    boolean restored;
  }

  /** One probe's runs, first the one not used for longest. */
  private static final class Probe {
    final LinkedHashMap<Key, Run> runs = new LinkedHashMap<>(16, 0.75f, true);
    int ranges;

    /** Keeps to the bound after {@code used} has changed. */
    boolean trim(Run used) {
      boolean forgot = false;
      for (; ranges > MAX_RANGES; forgot = true) {
        Iterator<Run> oldest = runs.values().iterator();
        Run cut = used.sequences.size() > 1 ? used : oldest.next();
        int gaps = Math.min(ranges - MAX_RANGES, cut.sequences.size() - 1);
        if (gaps > 0) {
          cut.sequences.closeGaps(gaps);
          ranges -= gaps;
        } else {
          oldest.remove();
          ranges--;
        }
      }
      return forgot;
    }
  }

  private final Map<String, Probe> probes = new HashMap<>();
  private long forgotten;

  /**
   * Remembers the message; returns false if it was seen before, or may have been. {@code now} is in
   * ms.
   */
  public boolean add(Worker worker, long epoch, long sequence, long now) {
    Probe probe = probes.computeIfAbsent(worker.probe(), name -> new Probe());
    Run run = run(probe, worker, epoch);
    run.touched = now;
    run.restored = false;
    int before = run.sequences.size();
    boolean isNew = run.sequences.add(sequence);
    probe.ranges += run.sequences.size() - before;
    if (probe.trim(run)) {
      forgotten++;
    }
    return isNew;
  }

  /** How often the bound made it forget a gap or a run. */
  public long forgotten() {
    return forgotten;
  }

  /** Adds the entries of a restored state; entries of the same run are merged. */
  public void restore(Iterable<Entry> entries) {
    for (Entry entry : entries) {
      Probe probe = probes.computeIfAbsent(entry.worker().probe(), name -> new Probe());
      Run run = run(probe, entry.worker(), entry.epoch());
      run.touched = Math.max(run.touched, entry.touched());
      run.restored = true;
      long[] ranges = entry.ranges();
      int before = run.sequences.size();
      int closed = Math.max(0, ranges.length / 2 - MAX_RANGES); // the state of an earlier version
      if (closed > 0) {
        run.sequences.addRange(ranges[0], ranges[2 * closed - 1]);
      }
      for (int i = 2 * closed; i + 1 < ranges.length; i += 2) {
        run.sequences.addRange(ranges[i], ranges[i + 1]);
      }
      probe.ranges += run.sequences.size() - before;
      probe.trim(run);
    }
    probes.values().forEach(SeenSequences::sort);
  }

  private static void sort(Probe probe) {
    List<Map.Entry<Key, Run>> runs = new ArrayList<>(probe.runs.entrySet());
    runs.sort(Comparator.comparingLong(run -> run.getValue().touched));
    probe.runs.clear();
    runs.forEach(run -> probe.runs.put(run.getKey(), run.getValue()));
  }

  /**
   * The state at a time, ms from 1970.
   *
   * @param restored whether with the runs that were restored and not used since, which another
   *     subtask may hold, too
   */
  public Iterable<Entry> entries(long now, boolean restored) {
    List<Entry> entries = new ArrayList<>();
    probes.forEach(
        (name, probe) -> {
          probe.runs.values().removeIf(run -> isOld(run, now));
          probe.ranges = probe.runs.values().stream().mapToInt(run -> run.sequences.size()).sum();
          probe.runs.forEach(
              (key, run) -> {
                if (restored || !run.restored) {
                  Worker worker = new Worker(key.kind(), name, key.worker());
                  long[] ranges = run.sequences.toArray();
                  entries.add(new Entry(worker, key.epoch(), run.touched, ranges));
                }
              });
        });
    probes.values().removeIf(probe -> probe.runs.isEmpty());
    return entries;
  }

  private static boolean isOld(Run run, long now) {
    return now - run.touched >= Retired.LATE_MS;
  }

  private static Run run(Probe probe, Worker worker, long epoch) {
    return probe.runs.computeIfAbsent(
        new Key(worker.kind(), worker.worker(), epoch), key -> new Run());
  }
}
