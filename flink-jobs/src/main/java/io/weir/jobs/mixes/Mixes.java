package io.weir.jobs.mixes;

import io.weir.jobs.graph.Job;
import io.weir.jobs.graph.Options;
import io.weir.jobs.graph.Streams;
import io.weir.jobs.window.WindowJob;
import io.weir.jobs.window.WindowTable;
import java.time.Duration;
import java.util.List;

/**
 * The job {@code mixes}: totals, applications, AS, countries and customers of every window of some
 * minutes, after UNINETT's Appflow; for each probe, for each customer and over all probes.
 */
public final class Mixes extends Job {
  /** Declares the job. */
  public Mixes() {
    super("mixes", "totals and shares of applications, AS, countries and customers");
  }

  /** The tables of the job. */
  public static List<WindowTable<?, ?>> tables() {
    return List.of(MixTable.TABLE);
  }

  @Override
  public void attach(Streams streams) {
    Options options = streams.options();
    streams.window(windowJob(options.mixWindow, options.mixTop, options.mixTopAs));
  }

  /** The job with this many applications (and customers) and AS in each direction. */
  public static WindowJob windowJob(Duration window, int applications, int systems) {
    return new WindowJob("mixes", new MixDigester(), new MixRows(applications, systems), window);
  }
}
