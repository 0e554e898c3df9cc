package io.weir.jobs;

import io.weir.jobs.graph.Options;
import io.weir.jobs.graph.Streams;
import io.weir.jobs.metrics.Metric;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** The reference page of the jobs: options and metrics as Markdown. */
final class Docs {
  private Docs() {}

  /** All metrics, in the order of the path of a message. */
  static List<Metric> metrics() {
    List<Metric> metrics = new ArrayList<>(Streams.metrics());
    Jobs.ALL.forEach(job -> metrics.addAll(job.metrics()));
    return metrics;
  }

  static String markdown() {
    StringBuilder text = new StringBuilder("# The Flink jobs\n\n```\n");
    text.append(Options.help(Jobs.ALL)).append("\n```\n\n## Metrics\n\n");
    text.append(
        "In Prometheus each name begins with `flink_taskmanager_job_task_operator_weir_` and carries ");
    text.append("`operator_name` and `subtask_index`. Flink's own metrics stand beside them.\n\n");
    text.append("| name | type | operator | what |\n|---|---|---|---|\n");
    for (Metric metric : metrics()) {
      text.append(
          String.format(
              Locale.ROOT,
              "| `%s` | %s | `%s` | %s |%n",
              metric.name(),
              metric.kind().name().toLowerCase(Locale.ROOT),
              metric.operator(),
              metric.what()));
    }
    text.append('\n').append(Definitions.markdown());
    return text.toString();
  }
}
