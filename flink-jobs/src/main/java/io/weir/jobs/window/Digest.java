package io.weir.jobs.window;

import io.weir.jobs.serde.Compressed;
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
 * @param last whether it says only that the bucket sends no further digest of this window and scope
 * @param compressed the data, see {@link Compressed}: digests are kept as long as late data may
 *     arrive
 */
public record Digest(
    int job,
    String probe,
    long window,
    int bucket,
    int reported,
    int expected,
    boolean last,
    byte[] compressed) {
  public static final WireType<Digest> TYPE = WireType.ofRecord(Digest.class);

  /** Creates a digest of data that are not compressed yet. */
  static Digest of(
      int job, String probe, long window, int bucket, int reported, int expected, long[] data) {
    return new Digest(job, probe, window, bucket, reported, expected, false, Compressed.of(data));
  }

  /** The end of a bucket's digests of one window and scope. */
  static Digest last(int job, String probe, long window, int bucket) {
    return new Digest(job, probe, window, bucket, 0, 0, true, Compressed.NONE);
  }

  /** The data, in the form that the job's {@link Digester} and {@link RowMaker} share. */
  public long[] data() {
    return Compressed.numbers(compressed);
  }
}
