package io.weir.jobs.window;

import java.util.Arrays;

/**
 * The hosts of a bucket, numbered in the order that they were met, and for each the flows that it
 * is an end of.
 */
public final class Hosts {
  private final Sums index = new Sums(0);
  private int[] head = {};
  private int[] next = {};
  private int[] hostOf = {};
  private int size;

  /** How many hosts there are in the flows. */
  public int size() {
    return size;
  }

  /** How many there are with those that did no more than fail to reach someone before. */
  public int known() {
    return index.size();
  }

  /** Upper half of a host's address. */
  public long high(int host) {
    return index.cells()[host * Sums.KEY];
  }

  /** Lower half of a host's address. */
  public long low(int host) {
    return index.cells()[host * Sums.KEY + 1];
  }

  /** Whether a host's address comes before another's. */
  public boolean before(int a, int b) {
    return Cells.before(index.cells(), a * Sums.KEY, b * Sums.KEY, Sums.KEY);
  }

  /** Number of the host with this address, -1 where there is none. */
  public int find(long high, long low) {
    int at = index.find(high, low);
    return at < 0 ? -1 : at / Sums.KEY;
  }

  /**
   * Number of the host that the flow's source ({@code end} 0) or destination (1) is, -1 where that
   * is not in this bucket.
   */
  public int of(int flow, int end) {
    return hostOf[2 * flow + end];
  }

  /** The first end of a host: 2 * flow + end. */
  public int first(int host) {
    return head[host];
  }

  /** The end of the same host that follows, -1 after the last. */
  public int next(int end) {
    return next[end];
  }

  void load(long[] cells, int flows, int bucket, Attempts attempts) {
    index.clear();
    if (hostOf.length < 2 * flows) {
      hostOf = new int[2 * flows];
      next = new int[2 * flows];
    }
    for (int flow = 0; flow < flows; flow++) {
      int at = flow * FlowTable.STRIDE;
      int key = FlowTable.overflowKey(cells[at + FlowTable.TUPLE]);
      hostOf[2 * flow] = key < 2 ? host(cells, at + FlowTable.SRC, bucket) : -1;
      hostOf[2 * flow + 1] = key == 0 || key == 2 ? host(cells, at + FlowTable.DST, bucket) : -1;
    }
    size = index.size();
    for (int at = 0; at < attempts.before() * Attempts.STRIDE; at += Attempts.STRIDE) {
      if (!attempts.answered(at)) {
        index.at(attempts.rows()[at], attempts.rows()[at + 1]);
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

  private int host(long[] cells, int at, int bucket) {
    return Buckets.of(cells[at], cells[at + 1]) == bucket
        ? index.at(cells[at], cells[at + 1]) / Sums.KEY
        : -1;
  }
}
