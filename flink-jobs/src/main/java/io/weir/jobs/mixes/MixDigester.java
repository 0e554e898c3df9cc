package io.weir.jobs.mixes;

import io.weir.jobs.enrich.Direction;
import io.weir.jobs.window.Digester;
import io.weir.jobs.window.FlowTable;
import io.weir.jobs.window.Flows;
import io.weir.jobs.window.Sums;

/**
 * A bucket's part of the mixes: octets, packets and flows, IPv4 and IPv6 apart, by application, AS,
 * country and customer, for each way that packets went. Each packet is in every dimension once, so
 * that each of them adds up to the total.
 *
 * <p>Inside is the probe's site for what one probe saw, the nation over all probes, and the
 * customer for each customer. A flow goes two ways: what its source sent, and what it was sent.
 * That it began is counted with what its source sent, or, where its source has not sent yet, with
 * what it was sent.
 */
final class MixDigester implements Digester {
  private static final long serialVersionUID = 1;

  /** Values of {@code dimension}. */
  static final int TOTAL = 1;

  static final int APPLICATION = 2;
  static final int AS = 3;
  static final int COUNTRY = 4;
  static final int CUSTOMER = 5;

  /** Sums: octets, packets and flows of IPv4, then of IPv6, then octets of overflow records. */
  static final int IPV6 = 3;

  static final int OVERFLOW = 6;
  static final int VALUES = 7;

  @Override
  public int sums() {
    return Sums.KEY + VALUES;
  }

  @Override
  public long[] digest(Flows flows) {
    Sums sums = new Sums(VALUES);
    long[] cells = flows.cells();
    for (int flow = 0; flow < flows.size(); flow++) {
      int at = flow * FlowTable.STRIDE;
      if (flows.owns(at)) {
        int flags = (int) cells[at + FlowTable.ATTRIBUTES];
        int src = (int) (cells[at + FlowTable.CUSTOMER] >>> 32);
        int dst = (int) cells[at + FlowTable.CUSTOMER];
        Direction direction =
            flows.national() ? Direction.ofNation(flags) : Direction.ofSite(flags);
        flow(sums, 0, cells, at, direction);
        if (flows.national() && src != 0) {
          flow(sums, src, cells, at, dst == src ? Direction.INTERNAL : Direction.OUT);
        }
        if (flows.national() && dst != 0 && dst != src) {
          flow(sums, dst, cells, at, Direction.IN);
        }
      }
    }
    return sums.toArray();
  }

  private static void flow(Sums sums, int scope, long[] cells, int at, Direction direction) {
    boolean overflow = FlowTable.overflowKey(cells[at + FlowTable.TUPLE]) != 0;
    int began = overflow ? 0 : FlowTable.began(cells[at + FlowTable.SEEN]);
    boolean sent = cells[at + FlowTable.FWD_PACKETS] != 0;
    if (sent) {
      way(sums, scope, cells, at, true, direction, began);
    }
    if (cells[at + FlowTable.REV_PACKETS] != 0) {
      way(sums, scope, cells, at, false, direction.back(), sent ? 0 : began);
    }
  }

  private static void way(
      Sums sums, int scope, long[] cells, int at, boolean forward, Direction direction, int began) {
    long octets = cells[at + (forward ? FlowTable.FWD_OCTETS : FlowTable.REV_OCTETS)];
    long packets = cells[at + (forward ? FlowTable.FWD_PACKETS : FlowTable.REV_PACKETS)];
    long attributes = cells[at + FlowTable.ATTRIBUTES];
    long as = cells[at + FlowTable.AS];
    long customer = cells[at + FlowTable.CUSTOMER];
    // AS and country of the end outside, the sender's but for what goes out; the customer of the
    // end inside, the sender's but for what comes in.
    boolean outer = forward == (direction != Direction.OUT);
    boolean inner = forward == (direction != Direction.IN);
    int version = (attributes & FlowTable.IPV6) != 0 ? IPV6 : 0;
    boolean overflow = FlowTable.overflowKey(cells[at + FlowTable.TUPLE]) != 0;
    long high = (long) scope << 16 | direction.ordinal();
    add(sums, high | TOTAL << 8, 0, version, octets, packets, began, overflow);
    add(
        sums,
        high | APPLICATION << 8,
        attributes >>> 48,
        version,
        octets,
        packets,
        began,
        overflow);
    long number = outer ? as >>> 32 : as & 0xffffffffL;
    add(sums, high | AS << 8, number, version, octets, packets, began, overflow);
    number = attributes >>> (outer ? 32 : 16) & 0xffff;
    add(sums, high | COUNTRY << 8, number, version, octets, packets, began, overflow);
    number = inner ? customer >>> 32 : customer & 0xffffffffL;
    add(sums, high | CUSTOMER << 8, number, version, octets, packets, began, overflow);
  }

  private static void add(
      Sums sums,
      long high,
      long low,
      int version,
      long octets,
      long packets,
      int began,
      boolean overflow) {
    int at = sums.at(high, low) + Sums.KEY;
    long[] into = sums.cells();
    into[at + version] += octets;
    into[at + version + 1] += packets;
    into[at + version + 2] += began;
    if (overflow) {
      into[at + OVERFLOW] += octets;
    }
  }
}
