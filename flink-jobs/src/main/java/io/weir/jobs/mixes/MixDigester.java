package io.weir.jobs.mixes;

import io.weir.jobs.message.Direction;
import io.weir.jobs.window.Digester;
import io.weir.jobs.window.FlowTable;
import io.weir.jobs.window.Flows;
import io.weir.jobs.window.Sums;
import java.util.Map;
import java.util.TreeMap;

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

  /** Sums of a way: octets, packets, flows. */
  private static final int WAY_VALUES = 3;

  @Override
  public int sums() {
    return Sums.KEY + VALUES;
  }

  @Override
  public long[] digest(Flows flows) {
    // First by everything at once, which costs one look-up for each way of a flow, then by each.
    Sums ways = new Sums(WAY_VALUES);
    long[] cells = flows.cells();
    for (int flow = 0; flow < flows.size(); flow++) {
      int at = flow * FlowTable.STRIDE;
      if (flows.owns(at)) {
        int flags = (int) cells[at + FlowTable.ATTRIBUTES];
        Direction direction =
            flows.national() ? Direction.ofNation(flags) : Direction.ofSite(flags);
        flow(ways, cells, at, direction);
      }
    }
    Sums sums = new Sums(VALUES);
    spread(ways, sums, 0);
    if (flows.national()) {
      customers(flows, sums);
    }
    return sums.toArray();
  }

  /** The flows of each customer, seen from there. */
  private static void customers(Flows flows, Sums sums) {
    long[] cells = flows.cells();
    Map<Integer, Sums> ways = new TreeMap<>();
    for (int flow = 0; flow < flows.size(); flow++) {
      int at = flow * FlowTable.STRIDE;
      if (cells[at + FlowTable.CUSTOMER] == 0 || !flows.owns(at)) {
        continue;
      }
      int src = (int) (cells[at + FlowTable.CUSTOMER] >>> 32);
      int dst = (int) cells[at + FlowTable.CUSTOMER];
      if (src != 0) {
        Direction direction = dst == src ? Direction.INTERNAL : Direction.OUT;
        flow(ways.computeIfAbsent(src, key -> new Sums(WAY_VALUES)), cells, at, direction);
      }
      if (dst != 0 && dst != src) {
        flow(ways.computeIfAbsent(dst, key -> new Sums(WAY_VALUES)), cells, at, Direction.IN);
      }
    }
    ways.forEach((customer, own) -> spread(own, sums, customer));
  }

  private static void flow(Sums ways, long[] cells, int at, Direction direction) {
    boolean overflow = FlowTable.overflowKey(cells[at + FlowTable.TUPLE]) != 0;
    int began = overflow ? 0 : FlowTable.began(cells[at + FlowTable.SEEN]);
    boolean sent = cells[at + FlowTable.FWD_PACKETS] != 0;
    if (sent) {
      way(ways, cells, at, true, direction, began);
    }
    if (cells[at + FlowTable.REV_PACKETS] != 0) {
      way(ways, cells, at, false, direction.back(), sent ? 0 : began);
    }
  }

  private static void way(
      Sums ways, long[] cells, int at, boolean forward, Direction direction, int began) {
    long attributes = cells[at + FlowTable.ATTRIBUTES];
    long as = cells[at + FlowTable.AS];
    long customer = cells[at + FlowTable.CUSTOMER];
    // AS and country of the end outside, the sender's but for what goes out; the customer of the
    // end inside, the sender's but for what comes in.
    boolean outer = forward == (direction != Direction.OUT);
    boolean inner = forward == (direction != Direction.IN);
    boolean overflow = FlowTable.overflowKey(cells[at + FlowTable.TUPLE]) != 0;
    long high =
        (attributes >>> 48) << 32
            | ((attributes >>> (outer ? 32 : 16)) & 0xffff) << 16
            | (overflow ? 16 : 0)
            | ((attributes & FlowTable.IPV6) != 0 ? 8 : 0)
            | direction.ordinal();
    long low =
        (outer ? as & ~0xffffffffL : as << 32) | (inner ? customer >>> 32 : customer & 0xffffffffL);
    int into = ways.at(high, low) + Sums.KEY;
    long[] sums = ways.cells();
    sums[into] += cells[at + (forward ? FlowTable.FWD_OCTETS : FlowTable.REV_OCTETS)];
    sums[into + 1] += cells[at + (forward ? FlowTable.FWD_PACKETS : FlowTable.REV_PACKETS)];
    sums[into + 2] += began;
  }

  /** Adds ways to the sums of each dimension. */
  private static void spread(Sums ways, Sums sums, int scope) {
    long[] cells = ways.cells();
    for (int at = 0; at < ways.size() * ways.stride(); at += ways.stride()) {
      int bits = (int) cells[at];
      int version = (bits & 8) != 0 ? IPV6 : 0;
      boolean overflow = (bits & 16) != 0;
      long octets = cells[at + Sums.KEY];
      long packets = cells[at + Sums.KEY + 1];
      int began = (int) cells[at + Sums.KEY + 2];
      long key = (long) scope << 16 | (bits & 7);
      long application = cells[at] >>> 32;
      long country = cells[at] >>> 16 & 0xffff;
      long system = cells[at + 1] >>> 32;
      long customer = cells[at + 1] & 0xffffffffL;
      add(sums, key | TOTAL << 8, 0, version, octets, packets, began, overflow);
      add(sums, key | APPLICATION << 8, application, version, octets, packets, began, overflow);
      add(sums, key | AS << 8, system, version, octets, packets, began, overflow);
      add(sums, key | COUNTRY << 8, country, version, octets, packets, began, overflow);
      add(sums, key | CUSTOMER << 8, customer, version, octets, packets, began, overflow);
    }
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
