package io.weir.jobs.window;

import java.io.Serializable;
import java.util.Collection;
import java.util.List;

/** A job's part after the buckets: turns their digests of one window into rows. */
public interface RowMaker extends Serializable {
  /**
   * The format of the digests' data, for state: changes with the numbers that the job's {@link
   * Digester} gives, or with their meaning.
   */
  default String form() {
    return "1";
  }

  /** The lists of the window, from one digest of each bucket. */
  List<RowList> rows(Collection<Digest> digests);
}
