package io.weir.jobs.message;

/**
 * For how long the end of a partition has stayed where it is, while none of its messages was read;
 * times are ms since the Unix epoch.
 */
public final class Idle {
  private long end = -1;
  private long since;

  /**
   * Whether none was added for longer than {@code grace}: an earlier job, whose state is gone, has
   * then read the partition.
   */
  public boolean lasts(long newEnd, long at, long grace) {
    if (newEnd != end) {
      end = newEnd;
      since = at;
    }
    return at - since > grace;
  }
}
