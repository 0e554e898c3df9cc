package io.weir.jobs.graph;

import io.weir.jobs.metrics.Metric;
import io.weir.jobs.source.TopicKind;
import java.util.List;

/** A job: a part of the graph that can run with the others or alone. */
public interface Job {
  /** Its name in {@code --jobs}. */
  String name();

  /** What it does, for {@code --help}. */
  String what();

  /** The topics that it reads. */
  default TopicKind reads() {
    return TopicKind.FLOWS;
  }

  /** Joins the job to the streams that all share, and its rows to the store. */
  void attach(Streams streams);

  /** The metrics of its operators. */
  default List<Metric> metrics() {
    return List.of();
  }
}
