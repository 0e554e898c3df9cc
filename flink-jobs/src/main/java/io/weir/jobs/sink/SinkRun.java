package io.weir.jobs.sink;

/**
 * Identifies the job that a sink's state belongs to.
 *
 * @param job id of the first run, which began without state
 * @param checkpoint that the state belongs to
 */
record SinkRun(String job, long checkpoint) {}
