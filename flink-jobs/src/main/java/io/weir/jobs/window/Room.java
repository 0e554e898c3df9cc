package io.weir.jobs.window;

import io.weir.jobs.window.WindowState.Log;

/** Ways to make room in a bucket's windows, in the order in which they are tried. */
enum Room {
  /** Adds up what windows hold of one flow: nothing is lost. */
  SAME,

  /** Adds up the smaller flows of windows that only wait for late data. */
  FINISHED,

  /** Drops the attempts that only late data would have judged again. */
  ATTEMPTS,

  /** Adds up the smaller flows of the other windows. */
  OPEN;

  /** Number of entries of a probe in a window that is not worth adding up. */
  private static final int LEAST_ENTRIES = 8;

  /**
   * Makes room in one window.
   *
   * @param after the next window, null if there is none
   * @param tooMuch entries to free, in this window or in others
   * @return the number of entries that were added up
   */
  int make(WindowState window, WindowState after, int tooMuch, Flows flows, int bucket) {
    if (this == ATTEMPTS) {
      if (after != null && after.look.finished) {
        window.dropAttempts();
      }
      return 0;
    }
    if (this == SAME) {
      addUpSame(window, flows, bucket);
      return 0;
    }
    if (window.look.finished != (this == FINISHED) || window.look.least) {
      return 0;
    }
    int gone = 0;
    for (Log log : window.probes.values()) {
      int before = log.entries;
      int needed = this == FINISHED ? 0 : before - (tooMuch - gone);
      int least = Math.max(LEAST_ENTRIES, Math.max(before / 4, needed));
      if (before > least) {
        flows.compact(log, Buckets.number(bucket), least);
        gone += before - log.entries;
      }
    }
    if (gone == 0 && this == FINISHED) {
      window.look.least = true;
    }
    window.entries -= gone;
    return gone;
  }

  /** Of a probe that sent little since, this would cost more than it frees. */
  private static void addUpSame(WindowState window, Flows flows, int bucket) {
    for (Log log : window.probes.values()) {
      int before = log.entries;
      if (before > LEAST_ENTRIES && before - log.compacted > log.compacted / 2) {
        flows.compact(log, Buckets.number(bucket), Integer.MAX_VALUE);
        window.entries -= before - log.entries;
      }
    }
  }
}
