package io.weir.jobs.window;

import java.util.Arrays;

/**
 * The hosts of a bucket, numbered in the order of their first occurrence, and the flows of each.
 */
public final class Hosts {
  private final Sums index = new Sums(0);
  private int[] head = {};
  private int[] next = {};
  private int[] hostOf = {};
  private int size;

  /** Number of hosts in the flows. */
  public int size() {
    return size;
  }

  /** Number of hosts, including those known only as the source of an earlier unanswered attempt. */
  public int known() {
    return index.size();
  }

  /** High 64 bits of a host's address. */
  public long high(int host) {
    return index.cells()[host * Sums.KEY];
  }

  /** Low 64 bits of a host's address. */
  public long low(int host) {
    return index.cells()[host * Sums.KEY + 1];
  }

  /** Whether a host's address comes before another's. */
  public boolean before(int a, int b) {
    return Cells.before(index.cells(), a * Sums.KEY, b * Sums.KEY, Sums.KEY);
  }

  /** Number of the host with this address, -1 if there is none. */
  public int find(long high, long low) {
    int at = index.find(high, low);
    return at < 0 ? -1 : at / Sums.KEY;
  }

  /** Number of the host at this end of the flow, -1 if it is not in this bucket. */
  public int of(FlowCursor flow, boolean source) {
    return hostOf[2 * flow.number() + (source ? 0 : 1)];
  }

  /** The first flow end of a host, -1 if it has none. */
  public int first(int host) {
    return head[host];
  }

  /** The end of the same host that follows, -1 after the last. */
  public int next(int end) {
    return next[end];
  }

  /** Number of the flow of an end. */
  public static int flow(int end) {
    return end / 2;
  }

  /** Whether an end is its flow's source. */
  public static boolean isSource(int end) {
    return end % 2 == 0;
  }

  void load(FlowCursor flow, int flows, int bucket, Attempts attempts) {
    index.clear();
    if (hostOf.length < 2 * flows) {
      hostOf = new int[2 * flows];
      next = new int[2 * flows];
    }
    for (int end = 0; flow.next(); end += 2) {
      hostOf[end] = flow.names(true) ? host(flow, true, bucket) : -1;
      hostOf[end + 1] = flow.names(false) ? host(flow, false, bucket) : -1;
    }
    size = index.size();
    for (int attempt = 0; attempt < attempts.before(); attempt++) {
      if (!attempts.answered(attempt)) {
        index.at(attempts.high(attempt, true), attempts.low(attempt, true));
      }
    }
    if (head.length < index.size()) {
      head = new int[Math.max(index.size(), 2 * head.length)];
    }
    Arrays.fill(head, 0, index.size(), -1);
    for (int end = 2 * flows - 1; end >= 0; end--) {
      int host = hostOf[end];
      if (host >= 0) {
        next[end] = head[host];
        head[host] = end;
      }
    }
  }

  private int host(FlowCursor flow, boolean source, int bucket) {
    return flow.isIn(bucket, source)
        ? index.at(flow.high(source), flow.low(source)) / Sums.KEY
        : -1;
  }
}
