package io.weir.jobs;

/** What can be stopped and started again from its state. */
public interface Restartable extends AutoCloseable {
  /** Takes a snapshot, throws what runs away and starts it anew from the snapshot. */
  void restart() throws Exception;
}
