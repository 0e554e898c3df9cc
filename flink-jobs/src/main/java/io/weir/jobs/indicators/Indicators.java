package io.weir.jobs.indicators;

import io.weir.jobs.window.Windows;
import java.time.Duration;

/**
 * The job {@code indicators}: the TCP port report, worm counts, SYN senders, scanners, ICMP errors
 * and UDP work weights of every window, for each probe and over all probes.
 */
public final class Indicators {
  /**
   * Failed first contacts more than answered ones that call a scanner: the least n with (1 -
   * theta1) / (1 - theta0) to the power of n at least beta / alpha, for theta0 0.8, theta1 0.2,
   * alpha 0.01, beta 0.99 (Jung and others, 2004).
   */
  public static final int SCANNER = 4;

  private Indicators() {}

  /** The job with lists of {@code top} and port reports of {@code report} hosts. */
  public static Windows.Job job(Duration window, int top, int report) {
    return new Windows.Job(
        "indicators",
        new IndicatorDigester(top, report, SCANNER),
        new IndicatorRows(top, report),
        window);
  }
}
