package io.weir.jobs;

import io.weir.jobs.alerts.Alerts;
import io.weir.jobs.detect.Detect;
import io.weir.jobs.filters.Filters;
import io.weir.jobs.graph.Job;
import io.weir.jobs.health.Health;
import io.weir.jobs.indicators.Indicators;
import io.weir.jobs.ingest.Ingest;
import io.weir.jobs.mixes.Mixes;
import io.weir.jobs.topn.Topn;
import java.util.List;

/** The registry of jobs; a new job is a class and a line here. */
public final class Jobs {
  /** All jobs, in the order in which the documents describe them. */
  public static final List<Job> ALL =
      List.of(
          new Ingest(),
          new Topn(),
          new Indicators(),
          new Mixes(),
          new Filters(),
          new Health(),
          new Alerts(),
          new Detect());

  private Jobs() {}
}
