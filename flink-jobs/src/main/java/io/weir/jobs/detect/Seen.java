package io.weir.jobs.detect;

import io.weir.jobs.serde.WireType;
import java.util.List;

/**
 * What one subtask read since its last message to one bucket of subjects ({@link
 * io.weir.jobs.window.Buckets}): what detectors gathered, by probe and interval, and how far probes
 * have closed their intervals.
 *
 * @param bucket id of the bucket
 * @param parts what was gathered
 * @param probes whose intervals were closed
 * @param ends of the newest of these intervals, ms from 1970, in the order of the probes
 */
record Seen(int bucket, List<Part> parts, List<String> probes, long[] ends) {
  static final WireType<Seen> TYPE = WireType.ofRecord(Seen.class);

  /**
   * What was gathered of one interval of a probe.
   *
   * @param start of the interval, ms from 1970
   * @param length of the interval, ms
   * @param groups see {@link Gathered#take}
   */
  record Part(String probe, long start, int length, long[] groups) {}
}
