package io.weir.jobs.graph;

import io.weir.jobs.metrics.Metric;
import io.weir.jobs.source.TopicKind;
import java.util.List;

/** A job: a part of the graph that can run with the others or alone. */
public abstract class Job {
  private final String name;
  private final String what;

  /**
   * Declares a job.
   *
   * @param name in {@code --jobs}
   * @param what its description, for {@code --help}
   */
  protected Job(String name, String what) {
    this.name = name;
    this.what = what;
  }

  /** Its name in {@code --jobs}. */
  public final String name() {
    return name;
  }

  /** Its purpose, for {@code --help}. */
  public final String what() {
    return what;
  }

  /** The topics that the job reads. */
  public TopicKind reads() {
    return TopicKind.FLOWS;
  }

  /** Connects the job to the shared streams, and its rows to the store. */
  public abstract void attach(Streams streams);

  /** The metrics of its operators. */
  public List<Metric> metrics() {
    return List.of();
  }
}
