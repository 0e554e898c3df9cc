package io.weir.jobs.mixes;

import io.weir.jobs.window.Windows;
import java.time.Duration;

/**
 * The job {@code mixes}: totals, applications, AS, countries and customers of every window of some
 * minutes, after UNINETT's Appflow; for each probe, for each customer and over all probes.
 */
public final class Mixes {
  private Mixes() {}

  /** The job with this many applications (and customers) and AS in each direction. */
  public static Windows.Job job(Duration window, int applications, int systems) {
    return new Windows.Job("mixes", new MixDigester(), new MixRows(applications, systems), window);
  }
}
