package io.weir.jobs.health;

import java.util.EnumSet;
import java.util.Locale;
import java.util.Set;

/**
 * The reason why an alert opens. The job checks a probe whenever Kafka reports end offsets (every
 * few seconds) and there is something new to check.
 */
enum Reason {
  /**
   * No closing record for three intervals and the grace, although the jobs have read everything in
   * Kafka.
   */
  PROBE_SILENT(2, 2),
  /** Closing records arrive late, and the agent reports that they had to wait. */
  PROBE_LATE(3, 3),
  /** Packets were dropped before they reached the agent. */
  PROBE_DROPS(1, 6),
  /**
   * Closing records arrive too early, or late without a queue that explains it: the clock is wrong.
   */
  CLOCK_OFF(3, 3),
  /** Batches or closing records are missing, or an interval's sums do not balance. */
  LEDGER_INCOMPLETE(1, 6),
  /** The number of the probe's unread messages grows from check to check. */
  LAG_GROWING(5, 5),
  /** No checkpoint of the jobs completes; the alert concerns no single probe. */
  CHECKPOINTS_FAILING(1, 1),
  /** The clock of the jobs' host is ahead of Kafka's; the alert concerns no single probe. */
  JOBS_CLOCK_AHEAD(1, 1);

  /** The reasons for alerts on a probe. */
  static final Set<Reason> OF_PROBES = EnumSet.range(PROBE_SILENT, LAG_GROWING);

  /** Number of consecutive checks at which the condition must hold before an alert opens. */
  final int openAfter;

  /** Number of consecutive checks at which it must not hold before the alert closes. */
  final int closeAfter;

  Reason(int openAfter, int closeAfter) {
    this.openAfter = openAfter;
    this.closeAfter = closeAfter;
  }

  String word() {
    return name().toLowerCase(Locale.ROOT);
  }
}
