package io.weir.jobs.topn;

import io.weir.jobs.window.Windows;
import java.time.Duration;

/**
 * The job {@code topn}: the largest flows, hosts, ports, AS and customers of every window, for each
 * probe, for each customer and over all probes.
 */
public final class Topn {
  private Topn() {}

  /** The job with lists of {@code top}. */
  public static Windows.Job job(Duration window, int top) {
    return new Windows.Job("topn", new TopnDigester(top), new TopnRows(top), window);
  }
}
