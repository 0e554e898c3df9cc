package io.weir.jobs.window;

import io.weir.jobs.message.Enrichment;
import java.util.Arrays;

/**
 * Attempts to open TCP connections, judged by whether a SYN-ACK arrived: a flow with a SYN, whose
 * initiator is known, seen by a probe that sees both directions. A window judges the attempts first
 * seen at least the answer timeout before its end, and those that were too late to be judged in the
 * previous window; the answer may come until the window's end, and any such probe of the scope may
 * see it.
 *
 * <p>Rows of {@link #STRIDE} numbers: the flow's key, customers, and flags as in {@link
 * FlowTable#ATTRIBUTES} with the answer in {@link #ANSWERED}.
 */
public final class Attempts {
  static final int STRIDE = FlowTable.KEY + 2;
  private static final int CUSTOMER = FlowTable.KEY;
  private static final int FLAGS = FlowTable.KEY + 1;

  private static final int TCP = 6;

  /** Bit of {@link #FLAGS}: an answer came in the window of the SYN. */
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

  /**
   * High 64 bits of the address of the host that tried ({@code source}), or of the host that it
   * tried to reach.
   */
  public long high(int attempt, boolean source) {
    return rows[attempt * STRIDE + (source ? FlowTable.SRC : FlowTable.DST)];
  }

  /** Low 64 bits of that address. */
  public long low(int attempt, boolean source) {
    return rows[attempt * STRIDE + (source ? FlowTable.SRC : FlowTable.DST) + 1];
  }

  /** Customer of the host that tried, 0 for none. */
  public int customer(int attempt) {
    return (int) (rows[attempt * STRIDE + CUSTOMER] >>> 32);
  }

  /**
   * Whether the host that tried is inside: at the probe's site, or over all probes inside the
   * nation.
   */
  public boolean isLocal(int attempt, boolean national) {
    int inside = national ? Enrichment.SRC_NATIONAL : Enrichment.SRC_AT_SITE;
    return (rows[attempt * STRIDE + FLAGS] & inside) != 0;
  }

  /** Whether the destination of the attempt has answered. */
  public boolean answered(int attempt) {
    int at = attempt * STRIDE;
    return (rows[at + FLAGS] & ANSWERED) != 0 || isClosed(rows, at);
  }

  /** Number of rows at the beginning that are from the previous window. */
  int before() {
    return before;
  }

  /**
   * Begins a window whose attempts are judged up to {@code edge} ms after its start, and adds the
   * attempts that {@link #late} returned for the previous one.
   */
  void begin(long edge, int ofBucket, long[] lateBefore) {
    open.clear();
    edgeMs = edge;
    bucket = ofBucket;
    lateSize = 0;
    size = 0;
    before = lateBefore.length / STRIDE;
    reserve(before);
    System.arraycopy(lateBefore, 0, rows, 0, lateBefore.length);
    size = before;
  }

  /** Adds the attempts among a probe's flows; later ones are for the next window. */
  void add(long[] cells, int from, int to) {
    FlowCursor flow = new FlowCursor(cells);
    for (int i = from; i < to; i++) {
      flow.seek(i);
      if (flow.synSent(true) == 0 || !isAttempt(flow)) {
        continue;
      }
      if (flow.firstSeen() < edgeMs) {
        reserve(1);
        row(cells, flow.place(), rows, size++ * STRIDE);
      } else {
        if ((lateSize + 1) * STRIDE > late.length) {
          late = Arrays.copyOf(late, late.length * 2);
        }
        row(cells, flow.place(), late, lateSize++ * STRIDE);
      }
    }
  }

  /** The attempts deferred to the next window. */
  long[] late() {
    return Arrays.copyOf(late, lateSize * STRIDE);
  }

  /**
   * Adds possible answers to the attempts: everything seen in this window.
   *
   * @param many whether there are several probes, so that another one may have seen the answer to
   *     an attempt
   */
  void answer(long[] cells, int flows, boolean many) {
    if (many && lateSize > 0) {
      look(late, lateSize, cells, flows);
      for (int at = 0; at < lateSize * STRIDE; at += STRIDE) {
        if (isClosed(late, at)) {
          late[at + FLAGS] |= ANSWERED;
        }
      }
      open.clear();
    }
    look(rows, size, cells, flows);
  }

  /**
   * Puts the unanswered attempts into {@link #open}, and marks those that a flow of this window
   * answers.
   */
  private void look(long[] attempts, int count, long[] cells, int flows) {
    for (int at = 0; at < count * STRIDE; at += STRIDE) {
      if ((attempts[at + FLAGS] & ANSWERED) == 0) {
        System.arraycopy(attempts, at, entry, 0, FlowTable.KEY);
        open.add(entry, 0);
      }
    }
    if (open.size() == 0) {
      return;
    }
    FlowCursor flow = new FlowCursor(cells);
    for (int i = 0; i < flows; i++) {
      if (flow.seek(i).synackSent(false) != 0 && !flow.isOneWay()) {
        int found = open.find(cells, flow.place());
        if (found >= 0) {
          open.cells()[found * FlowTable.STRIDE + FlowTable.SYNACK] = 1;
        }
      }
    }
  }

  private boolean isClosed(long[] attempts, int at) {
    int found = open.find(attempts, at);
    return found >= 0 && open.cells()[found * FlowTable.STRIDE + FlowTable.SYNACK] != 0;
  }

  private boolean isAttempt(FlowCursor flow) {
    return !flow.isGuess()
        && !flow.isOneWay()
        && flow.protocol() == TCP
        && !flow.isOverflow()
        && flow.isIn(bucket, true);
  }

  private static void row(long[] cells, int at, long[] into, int to) {
    System.arraycopy(cells, at, into, to, FlowTable.KEY);
    into[to + CUSTOMER] = cells[at + FlowTable.CUSTOMER];
    long answered = (int) cells[at + FlowTable.SYNACK] != 0 ? ANSWERED : 0;
    into[to + FLAGS] = (cells[at + FlowTable.ATTRIBUTES] & 0xffff) | answered;
  }

  private void reserve(int more) {
    if ((size + more) * STRIDE > rows.length) {
      rows = Arrays.copyOf(rows, Math.max(rows.length * 2, (size + more) * STRIDE));
    }
  }
}
