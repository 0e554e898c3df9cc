package io.weir.jobs.detect;

import io.weir.proto.Severity;
import java.util.List;
import java.util.Map;

/**
 * A detector's judgement of a subject.
 *
 * @param from when the evidence began, ms from 1970
 * @param until when it ended, so far
 */
record Finding(Reason reason, Subject subject, long from, long until, Degree degree, Shown shown) {
  /** The same with another severity. */
  Finding with(Severity severity) {
    Degree other = new Degree(degree.grown, degree.score, degree.threshold, severity);
    return new Finding(reason, subject, from, until, other, shown);
  }

  /**
   * How bad it is.
   *
   * @param grown a number that grows with the event
   * @param score the number that was compared with the threshold
   */
  record Degree(long grown, double score, double threshold, Severity severity) {
    /** Of a rate: a warning, and critical from another one on. */
    static Degree ofRate(double rate, double threshold, double critical) {
      return new Degree(
          Math.round(rate),
          rate,
          threshold,
          rate >= critical ? Severity.SEVERITY_CRITICAL : Severity.SEVERITY_WARNING);
    }
  }

  /**
   * What people see of it.
   *
   * @param text a sentence that ends with a full stop
   * @param values measured values, with units in their names
   * @param peers the first addresses at the other end, with what is counted of each
   * @param ports the ports that it concerns, the most frequent first
   * @param probes that saw it, with what each counted
   * @param sql the SQL that shows the evidence, with {@code %s} for the condition on the time
   */
  record Shown(
      String text,
      Map<String, Long> values,
      Map<String, Long> peers,
      List<Integer> ports,
      Map<String, Long> probes,
      String sql) {}
}
