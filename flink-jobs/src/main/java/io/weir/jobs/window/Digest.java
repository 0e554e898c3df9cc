package io.weir.jobs.window;

import io.weir.jobs.serde.WireType;

/**
 * One bucket's result for one job and window, for one probe or over all.
 *
 * @param job number of the job, see {@link Windows}
 * @param probe empty over all
 * @param window start, ms from 1970
 * @param bucket id of the bucket
 * @param reported probes whose window was complete
 * @param expected probes that are enrolled, 1 for a probe's own
 * @param data in the form that the job's {@link Digester} and {@link RowMaker} share
 */
public record Digest(
    int job, String probe, long window, int bucket, int reported, int expected, long[] data) {
  public static final WireType<Digest> TYPE = WireType.ofRecord(Digest.class);
}
