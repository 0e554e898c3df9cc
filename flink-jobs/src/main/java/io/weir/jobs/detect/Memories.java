package io.weir.jobs.detect;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.ToLongFunction;

/** The state of one bucket of subjects. */
final class Memories {
  /** Subjects that a detector remembers in a bucket; at twice as many those of least weight go. */
  static final int MOST = 128;

  final HashMap<At, Scan.Memory> scans = new HashMap<>();
  final HashMap<At, SynFlood.Memory> synFloods = new HashMap<>();
  final HashMap<At, Reflection.Memory> reflections = new HashMap<>();
  final HashMap<At, Guessing.Memory> guessing = new HashMap<>();

  /** Events by reason and subject, open ones and those that late data may still amend. */
  final TreeMap<String, Event> events = new TreeMap<>();

  /** Up to where each probe has closed its intervals, and when that was heard, ms from 1970. */
  final TreeMap<String, Long> ends = new TreeMap<>();

  final TreeMap<String, Long> heard = new TreeMap<>();

  /** How many memories made room for others. */
  private long displaced;

  /** The memories that made room for others since the last call. */
  long takeDisplaced() {
    long taken = displaced;
    displaced = 0;
    return taken;
  }

  /** Makes room for one more memory: the lighter half goes. */
  <M> void makeRoom(Map<At, M> known, ToLongFunction<M> weight) {
    if (known.size() < 2 * MOST) {
      return;
    }
    long[] weights = known.values().stream().mapToLong(weight).toArray();
    Arrays.sort(weights);
    long least = weights[weights.length - MOST];
    int before = known.size();
    known.values().removeIf(memory -> weight.applyAsLong(memory) <= least);
    displaced += before - known.size();
  }

  /** Whether nothing is remembered. */
  boolean isEmpty() {
    return events.isEmpty()
        && scans.isEmpty()
        && synFloods.isEmpty()
        && reflections.isEmpty()
        && guessing.isEmpty();
  }
}
