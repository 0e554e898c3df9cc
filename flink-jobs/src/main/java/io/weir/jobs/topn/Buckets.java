package io.weir.jobs.topn;

import org.apache.flink.runtime.state.KeyGroupRangeAssignment;

/**
 * Flows are spread over buckets by their five-tuple, so that every bucket's own list can be merged
 * into the whole one. The buckets' ids are chosen so that Flink spreads them evenly over any number
 * of subtasks up to theirs; both are fixed, or state would not find its flows again.
 */
final class Buckets {
  static final int COUNT = 16;
  static final int MAX_PARALLELISM = 128;

  /** Ids, by which the stream is keyed. */
  static final int[] IDS = ids();

  private Buckets() {}

  /** Place in {@link #IDS} of the entry at {@code at}. */
  static int of(long[] cells, int at) {
    return (FlowTable.hashAt(cells, at) >>> 20) % COUNT;
  }

  private static int[] ids() {
    int[] ids = new int[COUNT];
    for (int i = 0; i < COUNT; i++) {
      int wanted = i * (MAX_PARALLELISM / COUNT);
      while (KeyGroupRangeAssignment.assignToKeyGroup(ids[i], MAX_PARALLELISM) != wanted) {
        ids[i]++;
      }
    }
    return ids;
  }
}
