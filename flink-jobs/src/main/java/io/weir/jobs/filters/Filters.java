package io.weir.jobs.filters;

import io.weir.jobs.graph.Job;
import io.weir.jobs.graph.Streams;
import io.weir.jobs.metrics.Metric;
import io.weir.jobs.source.TopicKind;
import io.weir.jobs.table.TableRow;
import java.util.List;

/** The job {@code filters}: every counter a row, and the means of counters. */
public final class Filters implements Job {
  @Override
  public String name() {
    return "filters";
  }

  @Override
  public String what() {
    return "stores the agents' counters, and their means for baselines";
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
        streams
            .accepted()
            .flatMap(new CounterRows())
            .returns(TableRow.TYPE)
            .name("counters")
            .uid("counters"));
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
