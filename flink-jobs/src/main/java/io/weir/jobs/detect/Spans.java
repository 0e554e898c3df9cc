package io.weir.jobs.detect;

/**
 * A count of the newest ten seconds of a probe, and of those before: workers of a probe close their
 * intervals one after the other.
 */
final class Spans {
  /** Length of a span, ms. */
  static final long SPAN_MS = 10_000;

  private long span = Long.MIN_VALUE;
  private long newest;
  private long before;

  /** The span of evidence; longer intervals count in the span that they began in. */
  static long of(Evidence evidence) {
    return Math.floorDiv(evidence.start(), SPAN_MS);
  }

  /** Begins the span of the evidence, if it is later; returns by how many spans, else 0. */
  long begin(Evidence evidence) {
    long of = of(evidence);
    long after = span == Long.MIN_VALUE ? 0 : of - span;
    if (span == Long.MIN_VALUE || after > 0) {
      before = after == 1 ? newest : 0;
      newest = 0;
      span = of;
    }
    return Math.max(0, after);
  }

  /** Adds to the span of the evidence; returns the sum, or 0 if that is long over. */
  long add(Evidence evidence, long by) {
    long ago = span - of(evidence);
    if (ago == 0) {
      newest += by;
      return newest;
    }
    if (ago == 1) {
      before += by;
      return before;
    }
    return 0;
  }

  /** The count of the newest span. */
  long newest() {
    return newest;
  }

  /** A count of the evidence's span in a second. */
  static double rate(long count, Evidence evidence) {
    return count * 1000.0 / Math.max(SPAN_MS, evidence.length());
  }
}
