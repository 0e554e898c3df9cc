package io.weir.jobs;

import java.util.List;
import java.util.Locale;

/** The reference page of the jobs: options and metrics as Markdown. */
final class Docs {
  /**
   * A metric that the jobs add to Flink's own; names without the scope that the reporter puts
   * before them.
   */
  record Metric(String name, String type, String operator, String what) {}

  static final List<Metric> METRICS =
      List.of(
          new Metric("received_messages", "counter", "accept", "Messages read from Kafka"),
          new Metric(
              "received_records",
              "counter",
              "accept",
              "Flow records in messages that were accepted"),
          new Metric(
              "repeated_messages",
              "counter",
              "accept",
              "Messages dropped because they had come before"),
          new Metric(
              "dead_letters",
              "counter",
              "accept",
              "Messages set aside, by `cause` (scope `weir_cause`)"),
          new Metric("prefixes", "gauge", "enrich", "Declared prefixes; of subtask 0's process"),
          new Metric(
              "as_ranges",
              "gauge",
              "enrich",
              "Ranges of addresses of the file of autonomous systems"),
          new Metric(
              "country_ranges", "gauge", "enrich", "Ranges of addresses of the file of countries"),
          new Metric(
              "enrichment_refused",
              "gauge",
              "enrich",
              "Declarations and files left out since the start, by `cause` (scope `weir_cause`)"),
          new Metric(
              "topn_too_late_flows",
              "counter",
              "topn-buckets",
              "Flows for a window that takes nothing in any more; they are in `flows`"),
          new Metric(
              "counters_without_mean",
              "counter",
              "means",
              "Counters left out of a window (they are in `counters`), by `cause`: `too_late`, `too_many_labels`, `interval_too_long`"),
          new Metric("alerts", "counter", "health", "Alerts opened, updated and closed"),
          new Metric(
              "stored_rows", "counter", "store-<table>", "Rows that ClickHouse acknowledged"),
          new Metric("inserts", "counter", "store-<table>", "Blocks that ClickHouse acknowledged"),
          new Metric("insert_retries", "counter", "store-<table>", "Inserts tried again"),
          new Metric(
              "files_gone",
              "counter",
              "store-<table>",
              "Blocks of an old state whose file was gone; taken as stored"),
          new Metric(
              "pending_bytes", "gauge", "store-<table>", "Octets of rows on their way, compressed"),
          new Metric("pending_files", "gauge", "store-<table>", "Blocks waiting for ClickHouse"));

  private Docs() {}

  static String markdown() {
    StringBuilder text = new StringBuilder("# The Flink jobs\n\n```\n");
    text.append(Options.help()).append("\n```\n\n## Metrics\n\n");
    text.append(
        "In Prometheus each name begins with `flink_taskmanager_job_task_operator_weir_` and carries ");
    text.append("`operator_name` and `subtask_index`. Flink's own metrics stand beside them.\n\n");
    text.append("| name | type | operator | what |\n|---|---|---|---|\n");
    for (Metric metric : METRICS) {
      text.append(
          String.format(
              Locale.ROOT,
              "| `%s` | %s | `%s` | %s |%n",
              metric.name(),
              metric.type(),
              metric.operator(),
              metric.what()));
    }
    return text.toString();
  }
}
