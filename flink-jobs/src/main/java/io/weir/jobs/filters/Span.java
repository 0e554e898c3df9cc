package io.weir.jobs.filters;

/** The windows that counters are added up over, aligned to UTC. */
enum Span {
  HALF_MINUTE(30, 5),
  FIVE_MINUTES(300, 5),
  /** Its rows are written every five minutes while it lasts. */
  HOUR(3_600, 300),
  /** Its rows are written every hour while it lasts. */
  DAY(86_400, 3_600);

  final int seconds;
  final long ms;

  /** Minimum time between two versions of a window, ms. */
  final long againMs;

  Span(int seconds, int againSeconds) {
    this.seconds = seconds;
    ms = seconds * 1000L;
    againMs = againSeconds * 1000L;
  }

  /** Whether rows of a window are written before it is over. */
  boolean shownWhileItLasts() {
    return seconds >= 3_600;
  }
}
