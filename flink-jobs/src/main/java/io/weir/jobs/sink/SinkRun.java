package io.weir.jobs.sink;

import io.weir.jobs.serde.WireType;

/**
 * Of which job a sink's state is.
 *
 * @param job id of the first run, which began without state
 * @param checkpoint that the state is of
 */
record SinkRun(String job, long checkpoint) {
  static final WireType<SinkRun> TYPE = WireType.ofRecord(SinkRun.class);
}
