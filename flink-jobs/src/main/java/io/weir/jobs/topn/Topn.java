package io.weir.jobs.topn;

import io.weir.jobs.graph.Job;
import io.weir.jobs.graph.Options;
import io.weir.jobs.graph.Streams;
import io.weir.jobs.window.WindowJob;
import io.weir.jobs.window.WindowTable;
import java.time.Duration;
import java.util.List;

/**
 * The job {@code topn}: the largest flows, hosts, ports, AS and customers of every window, for each
 * probe, for each customer and over all probes.
 */
public final class Topn extends Job {
  /** Declares the job. */
  public Topn() {
    super("topn", "the largest flows, hosts, ports, AS and customers of each window");
  }

  /** The tables of the job. */
  public static List<WindowTable<?, ?>> tables() {
    return List.of(TopFlows.TABLE, TopTalkers.TABLE);
  }

  @Override
  public void attach(Streams streams) {
    Options options = streams.options();
    streams.window(windowJob(options.window, options.top));
  }

  /** The job with lists of {@code top}. */
  public static WindowJob windowJob(Duration window, int top) {
    return new WindowJob("topn", new TopnDigester(top), new TopnRows(top), window);
  }
}
