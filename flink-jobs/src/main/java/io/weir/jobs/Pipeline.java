package io.weir.jobs;

import io.weir.jobs.graph.Job;
import io.weir.jobs.graph.Options;
import io.weir.jobs.graph.Streams;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Builds the graph of the chosen jobs. */
final class Pipeline {
  private Pipeline() {}

  static void build(Options options, StreamExecutionEnvironment environment) {
    Streams streams = new Streams(options, environment);
    for (Job job : options.jobs) {
      job.attach(streams);
    }
    streams.complete();
  }
}
