package io.weir.jobs.sink;

import org.apache.flink.util.function.SupplierWithException;

/** Runs a sink's inserts apart from its stream, and provides the clock for them. */
interface Background {
  /** ms from 1970. */
  long now();

  /**
   * Starts to call {@code step} repeatedly. Each call does one thing, and returns for how many ms
   * there is nothing more to do; {@link #wake} ends that wait.
   */
  void begin(String name, SupplierWithException<Long, Exception> step);

  /** Signals that there is something to do. */
  void wake();

  /** Ends it. */
  void end() throws InterruptedException;
}
