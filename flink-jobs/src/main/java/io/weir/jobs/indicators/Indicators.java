package io.weir.jobs.indicators;

import io.weir.jobs.graph.Job;
import io.weir.jobs.graph.Options;
import io.weir.jobs.graph.Streams;
import io.weir.jobs.window.WindowJob;
import io.weir.jobs.window.WindowTable;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The job {@code indicators}: the TCP port report, worm counts, SYN senders, scanners, ICMP errors
 * and UDP work weights of every window, for each probe and over all probes.
 */
public final class Indicators extends Job {
  /**
   * The excess of failed over answered first contacts that makes a host a scanner: the smallest n
   * with (1 - theta1) / (1 - theta0) to the power of n at least beta / alpha, for theta0 0.8,
   * theta1 0.2, alpha 0.01, beta 0.99 (Jung and others, 2004).
   */
  public static final int SCANNER = 4;

  /** Declares the job. */
  public Indicators() {
    super(
        "indicators",
        "who scans, floods or behaves like a worm: the TCP port report and its lists");
  }

  /** The tables of the job. */
  public static List<WindowTable<?, ?>> tables() {
    return List.of(PortReport.TABLE, TopIndicators.TABLE, IndicatorTable.TABLE);
  }

  /** The counts that lists add, in plain SQL: aggregates over the ends of a host, by name. */
  public static Map<String, String> hostCountsSql() {
    Map<String, String> counts = new LinkedHashMap<>();
    for (CountedList list : HostLists.COUNTED) {
      counts.put(list.name(), list.countSql());
    }
    return counts;
  }

  /** The sums over hosts, as lines of a table of the reference. */
  public static List<String> sums() {
    return Indicator.ALL.stream()
        .map(one -> "| `%s` | %s | %s |".formatted(one.name(), one.comment(), one.source()))
        .toList();
  }

  @Override
  public void attach(Streams streams) {
    Options options = streams.options();
    streams.window(windowJob(options.window, options.top, options.portReport));
  }

  /** The job with lists of {@code top} and port reports of {@code report} hosts. */
  public static WindowJob windowJob(Duration window, int top, int report) {
    return new WindowJob(
        "indicators", new IndicatorDigester(top, report), new IndicatorRows(top, report), window);
  }
}
