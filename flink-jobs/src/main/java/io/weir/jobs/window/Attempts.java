package io.weir.jobs.window;

import java.util.Arrays;

/**
 * Attempts to open TCP connections, to be judged by whether a SYN-ACK came: a flow with a SYN,
 * whose initiator is known, seen by a probe that sees both directions. A window judges those that
 * were first seen until the answer's time-out before its end, and those of the window before that
 * were too late to be judged there; the answer may come until the window's end, from any such
 * probe.
 *
 * <p>Rows of {@link #STRIDE} numbers: the flow's key, customers, and flags as in {@link
 * FlowTable#ATTRIBUTES} with the answer in {@link #ANSWERED}.
 */
public final class Attempts {
  /** Numbers of a row. */
  public static final int STRIDE = FlowTable.KEY + 2;

  /** Customers of source and destination in a row. */
  public static final int CUSTOMER = FlowTable.KEY;

  /** Flags in a row. */
  public static final int FLAGS = FlowTable.KEY + 1;

  private static final int TCP = 6;

  /** Of {@link #FLAGS}: the flow itself had a SYN-ACK. */
  private static final int ANSWERED = 1 << 20;

  private final FlowTable open = new FlowTable();
  private final long[] entry = new long[FlowTable.STRIDE];
  private long edgeMs;
  private int bucket;
  private long[] rows = new long[64 * STRIDE];
  private int size;
  private int before;
  private long[] late = new long[64 * STRIDE];
  private int lateSize;

  /** How many there are. */
  public int size() {
    return size;
  }

  /** The rows. */
  public long[] rows() {
    return rows;
  }

  /** Whether what the row at {@code at} tried to reach has answered. */
  public boolean answered(int at) {
    if ((rows[at + FLAGS] & ANSWERED) != 0) {
      return true;
    }
    int found = open.find(rows, at);
    return found >= 0 && open.cells()[found * FlowTable.STRIDE + FlowTable.SYNACK] != 0;
  }

  /** How many of the rows, the first ones, are of the window before. */
  int before() {
    return before;
  }

  /** Begins a window whose attempts are judged up to {@code edge} ms after its start. */
  void clear(long edge, int ofBucket) {
    open.clear();
    edgeMs = edge;
    bucket = ofBucket;
    size = 0;
    before = 0;
    lateSize = 0;
  }

  /** Takes in what {@link #late} gave of the window before. */
  void addBefore(long[] late) {
    reserve(late.length / STRIDE);
    System.arraycopy(late, 0, rows, size * STRIDE, late.length);
    size += late.length / STRIDE;
    before = size;
    for (int at = 0; at < late.length; at += STRIDE) {
      leaveOpen(late, at);
    }
  }

  /** Takes in the attempts among a probe's flows; later ones are for the next window. */
  void add(long[] cells, int from, int to) {
    for (int at = from * FlowTable.STRIDE; at < to * FlowTable.STRIDE; at += FlowTable.STRIDE) {
      if (cells[at + FlowTable.SYN] >>> 32 == 0 || !isAttempt(cells, at)) {
        continue;
      }
      if (FlowTable.firstSeen(cells[at + FlowTable.SEEN]) < edgeMs) {
        reserve(1);
        row(cells, at, rows, size * STRIDE);
        leaveOpen(rows, size++ * STRIDE);
      } else {
        if ((lateSize + 1) * STRIDE > late.length) {
          late = Arrays.copyOf(late, late.length * 2);
        }
        row(cells, at, late, lateSize++ * STRIDE);
      }
    }
  }

  /** The attempts that the next window is to judge. */
  long[] late() {
    return Arrays.copyOf(late, lateSize * STRIDE);
  }

  /** Takes in what answers the attempts: all that was seen in this window. */
  void answer(long[] cells, int flows) {
    if (open.size() == 0) {
      return;
    }
    for (int at = 0; at < before * STRIDE; at += STRIDE) {
      if ((rows[at + FLAGS] & ANSWERED) != 0) {
        close(rows, at);
      }
    }
    for (int at = 0; at < flows * FlowTable.STRIDE; at += FlowTable.STRIDE) {
      if ((int) cells[at + FlowTable.SYNACK] != 0
          && (cells[at + FlowTable.ATTRIBUTES] & FlowTable.ONE_WAY) == 0) {
        close(cells, at);
      }
    }
  }

  private boolean isAttempt(long[] cells, int at) {
    return (cells[at + FlowTable.ATTRIBUTES] & (FlowTable.GUESS | FlowTable.ONE_WAY)) == 0
        && FlowTable.protocol(cells[at + FlowTable.TUPLE]) == TCP
        && FlowTable.overflowKey(cells[at + FlowTable.TUPLE]) == 0
        && Buckets.of(cells[at + FlowTable.SRC], cells[at + FlowTable.SRC + 1]) == bucket;
  }

  private static void row(long[] cells, int at, long[] into, int to) {
    System.arraycopy(cells, at, into, to, FlowTable.KEY);
    into[to + CUSTOMER] = cells[at + FlowTable.CUSTOMER];
    long answered = (int) cells[at + FlowTable.SYNACK] != 0 ? ANSWERED : 0;
    into[to + FLAGS] = (cells[at + FlowTable.ATTRIBUTES] & 0xffff) | answered;
  }

  private void leaveOpen(long[] from, int at) {
    if ((from[at + FLAGS] & ANSWERED) == 0) {
      System.arraycopy(from, at, entry, 0, FlowTable.KEY);
      open.add(entry, 0);
    }
  }

  private void close(long[] from, int at) {
    int found = open.find(from, at);
    if (found >= 0) {
      open.cells()[found * FlowTable.STRIDE + FlowTable.SYNACK] = 1;
    }
  }

  private void reserve(int more) {
    if ((size + more) * STRIDE > rows.length) {
      rows = Arrays.copyOf(rows, Math.max(rows.length * 2, (size + more) * STRIDE));
    }
  }
}
