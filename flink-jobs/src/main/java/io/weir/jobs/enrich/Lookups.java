package io.weir.jobs.enrich;

import java.io.Serializable;
import org.apache.flink.metrics.MetricGroup;

/** The look-ups that {@link Enrich} uses. */
public interface Lookups extends AutoCloseable {
  /** The current data; call again for each batch. */
  Known now();

  /** Registers the metrics. */
  void register(MetricGroup metrics);

  @Override
  void close();

  /** Opens the look-ups of one subtask. */
  interface Factory extends Serializable {
    /** Returns once the current declarations have been read, or after a time limit. */
    Lookups open() throws InterruptedException;
  }
}
