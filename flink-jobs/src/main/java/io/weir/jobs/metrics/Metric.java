package io.weir.jobs.metrics;

import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.MetricGroup;

/**
 * A metric that the jobs add to Flink's own. It is declared beside the code that counts, and
 * registered only through its declaration, so that the reference lists all metrics.
 *
 * @param name without the scope that the reporter prepends
 * @param operator name of the operator that has it
 */
public record Metric(String name, Kind kind, String operator, String what) {
  /** Whether the number only grows. */
  public enum Kind {
    COUNTER,
    GAUGE
  }

  /** A number that only grows. */
  public static Metric counter(String name, String operator, String what) {
    return new Metric(name, Kind.COUNTER, operator, what);
  }

  /** A number that goes up and down. */
  public static Metric gauge(String name, String operator, String what) {
    return new Metric(name, Kind.GAUGE, operator, what);
  }

  /** Registers a counter in the group of an operator. */
  public Counter register(MetricGroup operatorGroup) {
    return weir(operatorGroup).counter(name);
  }

  /** Registers a counter of one cause. */
  public Counter register(MetricGroup operatorGroup, String cause) {
    return weir(operatorGroup).addGroup("cause", cause).counter(name);
  }

  /** Registers a gauge. */
  public void register(MetricGroup operatorGroup, Gauge<? extends Number> value) {
    weir(operatorGroup).gauge(name, value);
  }

  /** Registers a gauge of one cause. */
  public void register(MetricGroup operatorGroup, String cause, Gauge<? extends Number> value) {
    weir(operatorGroup).addGroup("cause", cause).gauge(name, value);
  }

  private static MetricGroup weir(MetricGroup operatorGroup) {
    return operatorGroup.addGroup("weir");
  }
}
