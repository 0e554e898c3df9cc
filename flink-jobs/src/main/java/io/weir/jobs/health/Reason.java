package io.weir.jobs.health;

import java.util.Locale;

/**
 * Why an alert is opened. A check is made at every answer of Kafka to the question how far its
 * partitions reach (every few seconds) that has something new to judge.
 */
enum Reason {
  /** No closing record for three intervals and the grace, though all in Kafka was read. */
  PROBE_SILENT(2, 2),
  /** Closing records arrive late, and the agent reports that they had to wait. */
  PROBE_LATE(3, 3),
  /** Packets were dropped before the agent. */
  PROBE_DROPS(1, 6),
  /**
   * Closing records arrive too early, or late without a queue that explains it: the clock is wrong.
   */
  CLOCK_OFF(3, 3),
  /** Batches or closing records are missing, or an interval's sums do not balance. */
  LEDGER_INCOMPLETE(1, 6),
  /** More messages of the probe are unread at every check. */
  LAG_GROWING(5, 5);

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
