package io.weir.jobs.window;

import io.weir.jobs.serde.WireType;

/**
 * One bucket's result for one job and window, for one probe or over all probes.
 *
 * @param job number of the job, see {@link Windows}
 * @param probe name, empty for all probes
 * @param window start, ms from 1970
 * @param bucket id of the bucket
 * @param reported number of probes whose window was complete
 * @param expected number of enrolled probes, 1 for a single probe
 * @param data in the form that the job's {@link Digester} and {@link RowMaker} share
 */
public record Digest(
    int job, String probe, long window, int bucket, int reported, int expected, long[] data) {
  public static final WireType<Digest> TYPE = WireType.ofRecord(Digest.class);
}
