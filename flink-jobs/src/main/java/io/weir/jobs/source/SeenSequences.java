package io.weir.jobs.source;

import io.weir.jobs.message.RangeSet;
import io.weir.jobs.message.Retired;
import java.util.HashMap;
import java.util.Map;

/**
 * Which messages have been accepted, by (topic kind, probe, worker, epoch): the sequence numbers as
 * ranges. A number that has been added before identifies a repeat. It keeps ranges rather than the
 * highest number, because dead letters and spooled messages come back out of order.
 *
 * <p>Bounded by {@link #MAX_EPOCHS} runs of an agent for each worker (it drops the run not used for
 * longest) and {@link #MAX_RANGES} ranges for each of them. It forgets a run not used for {@link
 * Retired#LATE_MS}, and so a probe that has been removed.
 */
public final class SeenSequences {
  /** Runs of an agent remembered for each worker. */
  public static final int MAX_EPOCHS = 256;

  /** Ranges remembered for each run. */
  public static final int MAX_RANGES = 10_000;

  /** The worker that writes one partition. {@code kind} is the topic's kind. */
  public record Worker(TopicKind kind, String probe, int worker) {}

  /** One entry of the state: one run of one worker. */
  public record Entry(Worker worker, long epoch, long touched, long[] ranges) {}

  private static final class Run {
    final RangeSet sequences = new RangeSet(MAX_RANGES);
    long touched;
  }

  private final Map<Worker, Map<Long, Run>> workers = new HashMap<>();

  /**
   * Remembers the message; returns false if it was seen before. {@code now} is in ms and determines
   * which runs are forgotten first.
   */
  public boolean add(Worker worker, long epoch, long sequence, long now) {
    Run run = run(worker, epoch);
    run.touched = now;
    return run.sequences.add(sequence);
  }

  /** Adds an entry of a restored state; entries of the same run are merged. */
  public void restore(Entry entry) {
    Run run = run(entry.worker(), entry.epoch());
    run.touched = Math.max(run.touched, entry.touched());
    for (int i = 0; i + 1 < entry.ranges().length; i += 2) {
      run.sequences.addRange(entry.ranges()[i], entry.ranges()[i + 1]);
    }
  }

  /** The whole state at a time, ms from 1970. */
  public Iterable<Entry> entries(long now) {
    workers.values().forEach(runs -> runs.values().removeIf(run -> isOld(run, now)));
    workers.values().removeIf(Map::isEmpty);
    return () ->
        workers.entrySet().stream()
            .flatMap(
                worker ->
                    worker.getValue().entrySet().stream()
                        .map(
                            run ->
                                new Entry(
                                    worker.getKey(),
                                    run.getKey(),
                                    run.getValue().touched,
                                    run.getValue().sequences.toArray())))
            .iterator();
  }

  private static boolean isOld(Run run, long now) {
    return now - run.touched >= Retired.LATE_MS;
  }

  private Run run(Worker worker, long epoch) {
    Map<Long, Run> runs = workers.computeIfAbsent(worker, key -> new HashMap<>());
    Run run = runs.get(epoch);
    if (run == null) {
      if (runs.size() >= MAX_EPOCHS) {
        long oldest =
            runs.entrySet().stream()
                .min((a, b) -> Long.compare(a.getValue().touched, b.getValue().touched))
                .orElseThrow()
                .getKey();
        runs.remove(oldest);
      }
      run = new Run();
      runs.put(epoch, run);
    }
    return run;
  }
}
