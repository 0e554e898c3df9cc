package io.weir.jobs.mixes;

import io.weir.jobs.message.Direction;
import io.weir.jobs.window.FlowCursor;

/**
 * The common properties of a flow's packets in one direction: everything that dimensions need,
 * packed into two numbers that serve as a key of sums.
 */
final class Way {
  private static final long LOW = 0xffffffffL;
  private static final int OVERFLOW = 16;
  private static final int IPV6 = 8;

  long high;
  long low;

  /**
   * Sets the direction of one end's packets.
   *
   * @param source whether these are the source's packets
   * @param direction in which they went
   */
  void set(FlowCursor flow, boolean source, Direction direction) {
    // AS and country are those of the outside end: the receiver for direction OUT, else the sender.
    // The customer is that of the inside end: the receiver for direction IN, else the sender.
    boolean outer = source == (direction != Direction.OUT);
    boolean inner = source == (direction != Direction.IN);
    high =
        (long) flow.application() << 32
            | (long) flow.country(outer) << 16
            | (flow.isOverflow() ? OVERFLOW : 0)
            | (flow.isIpv6() ? IPV6 : 0)
            | direction.ordinal();
    low = (long) flow.system(outer) << 32 | (flow.customer(inner) & LOW);
  }

  /** Number of the direction, as in {@link Direction}. */
  long direction() {
    return high & 7;
  }

  boolean isIpv6() {
    return (high & IPV6) != 0;
  }

  boolean isOverflow() {
    return (high & OVERFLOW) != 0;
  }

  /** Number of the application, 0 unknown. */
  long application() {
    return high >>> 32;
  }

  /** Country of the outside end; if there is none, of the sender. 0 unknown. */
  long country() {
    return high >>> 16 & 0xffff;
  }

  /** AS of the outside end; if there is none, of the sender. 0 unknown. */
  long system() {
    return low >>> 32;
  }

  /** Customer of the inside end; if there is none, of the sender. 0 for none. */
  long customer() {
    return low & LOW;
  }
}
