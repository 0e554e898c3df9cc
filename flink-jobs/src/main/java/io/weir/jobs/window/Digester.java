package io.weir.jobs.window;

import java.io.Serializable;

/**
 * A job's part in a bucket: turns the bucket's flows of a window into numbers that can be merged.
 */
public interface Digester extends Serializable {
  /** Numbers that the job's {@link RowMaker} understands. */
  long[] digest(Flows flows);

  /**
   * Stride of the digest where it is a table of sums ({@link Sums}) that is added up over several
   * windows: later digests of the same window then contain only the difference. 0 if the digest
   * replaces the previous one.
   */
  default int sums() {
    return 0;
  }
}
