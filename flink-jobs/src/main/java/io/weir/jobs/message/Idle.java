package io.weir.jobs.message;

/**
 * Tracks how long a partition's end offset has not moved while none of its messages was read. Times
 * are ms since the Unix epoch.
 */
public final class Idle {
  private long end = -1;
  private long since;

  /**
   * Whether the partition has received no message for longer than {@code grace}: an earlier job,
   * whose state is gone, has then read the partition.
   */
  public boolean lasts(long newEnd, long at, long grace) {
    if (newEnd != end || at < since) { // the jobs' clock may have been set back
      end = newEnd;
      since = at;
    }
    return at - since > grace;
  }
}
