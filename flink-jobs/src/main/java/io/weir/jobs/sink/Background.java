package io.weir.jobs.sink;

import org.apache.flink.util.function.SupplierWithException;

/** Where a sink's inserts are made, apart from its stream, and the clock that they go by. */
interface Background {
  /** ms from 1970. */
  long now();

  /**
   * Begins to run {@code step} again and again: it does one thing, and returns how many ms there is
   * nothing more to do; until {@link #wake} at the latest.
   */
  void begin(String name, SupplierWithException<Long, Exception> step);

  /** There is something to do. */
  void wake();

  /** Ends it. */
  void end() throws InterruptedException;
}
