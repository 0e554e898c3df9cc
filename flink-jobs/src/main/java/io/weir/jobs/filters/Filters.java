package io.weir.jobs.filters;

import static io.weir.jobs.operator.Named.named;

import io.weir.jobs.graph.Job;
import io.weir.jobs.graph.Streams;
import io.weir.jobs.metrics.Metric;
import io.weir.jobs.source.TopicKind;
import io.weir.jobs.table.TableRow;
import java.util.List;

/** The job {@code filters}: writes every counter as a row, and the means of counters. */
public final class Filters extends Job {
  /** Declares the job. */
  public Filters() {
    super("filters", "stores the agents' counters, and their means for baselines");
  }

  @Override
  public TopicKind reads() {
    return TopicKind.COUNTERS;
  }

  @Override
  public void attach(Streams streams) {
    streams.setAside();
    streams.storeRows(
        "counters",
        named("counters", TableRow.TYPE, streams.accepted().flatMap(new CounterRows())));
    streams.storeRows(
        "counter-means",
        CounterMeans.rows(
            streams.accepted(), streams.enrolments(), streams.options().nationalDelay));
  }

  @Override
  public List<Metric> metrics() {
    return CounterMeans.METRICS;
  }
}
