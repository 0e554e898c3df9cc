package io.weir.jobs.window;

import java.util.Arrays;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;

/**
 * Addresses are spread over buckets. A flow goes to the bucket of its source and to that of its
 * destination, so that all of a host's traffic is in one place, and the observations of one flow by
 * several probes meet in both. Counts that include each flow once use the bucket of its lower
 * address.
 *
 * <p>The buckets' ids are chosen so that Flink spreads them evenly over any number of subtasks up
 * to the number of buckets. Neither the ids nor their number may change, or a restored state would
 * not find its flows.
 */
public final class Buckets {
  public static final int COUNT = 64;
  public static final int MAX_PARALLELISM = 128;

  /** The bits of all buckets. */
  static final long ALL = -1L >>> (Long.SIZE - COUNT);

  /** Ids, by which the stream is keyed. */
  static final int[] IDS = ids();

  private Buckets() {}

  /** Number of the bucket of an address. */
  public static int of(long high, long low) {
    long h = high * 0x9e3779b97f4a7c15L + low;
    h = (h ^ h >>> 32) * 0xd6e8feb86659fd93L;
    h = (h ^ h >>> 29) * 0x9e3779b97f4a7c15L;
    return ((int) (h ^ h >>> 32) >>> 20) & COUNT - 1;
  }

  /** Number of the bucket that makes the counts that include the flow at {@code at} once. */
  static int owner(long[] cells, int at) {
    int address =
        switch (FlowTable.overflowKey(cells[at + FlowTable.TUPLE])) {
          case 0 -> srcFirst(cells, at) ? FlowTable.SRC : FlowTable.DST;
          case FlowTable.SOURCE_AND_PORT -> FlowTable.SRC;
          case FlowTable.DESTINATION_AND_PORT -> FlowTable.DST;
          default -> -1;
        };
    return address < 0 ? 0 : of(cells[at + address], cells[at + address + 1]);
  }

  /** Whether the source is the lower address, or the same. */
  static boolean srcFirst(long[] cells, int at) {
    int high = Long.compareUnsigned(cells[at + FlowTable.SRC], cells[at + FlowTable.DST]);
    return high < 0
        || (high == 0
            && Long.compareUnsigned(cells[at + FlowTable.SRC + 1], cells[at + FlowTable.DST + 1])
                <= 0);
  }

  /**
   * One bucket id for each subtask of the operator that follows the caller's. Both operators have
   * the same parallelism.
   */
  static int[] oneOfEach(RuntimeContext runtime) {
    int subtasks = runtime.getTaskInfo().getNumberOfParallelSubtasks();
    int[] ids = new int[Math.min(subtasks, COUNT)];
    int found = 0;
    int last = -1;
    for (int id : IDS) {
      int subtask =
          KeyGroupRangeAssignment.assignKeyToParallelOperator(id, MAX_PARALLELISM, subtasks);
      if (subtask != last) {
        ids[found++] = id;
        last = subtask;
      }
    }
    return Arrays.copyOf(ids, found);
  }

  /** Number of the bucket with this id. */
  static int number(int id) {
    return KeyGroupRangeAssignment.assignToKeyGroup(id, MAX_PARALLELISM)
        / (MAX_PARALLELISM / COUNT);
  }

  /** The id of the bucket with this number. */
  public static int id(int number) {
    return IDS[number];
  }

  /** The bit of the bucket with this id, in a set of buckets. */
  static long bit(int id) {
    return 1L << number(id);
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
