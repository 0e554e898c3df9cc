package io.weir.jobs.mixes;

import io.weir.jobs.message.Direction;
import io.weir.jobs.window.Digester;
import io.weir.jobs.window.FlowCursor;
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
    FlowCursor flow = flows.cursor();
    while (flow.next()) {
      if (flow.isOwned()) {
        count(ways, flow, flow.direction());
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
    FlowCursor flow = flows.cursor();
    Map<Integer, Sums> ways = new TreeMap<>();
    while (flow.next()) {
      if (!flow.hasCustomer() || !flow.isOwned()) {
        continue;
      }
      int src = flow.customer(true);
      int dst = flow.customer(false);
      if (src != 0) {
        Direction direction = dst == src ? Direction.INTERNAL : Direction.OUT;
        count(ways.computeIfAbsent(src, key -> new Sums(WAY_VALUES)), flow, direction);
      }
      if (dst != 0 && dst != src) {
        count(ways.computeIfAbsent(dst, key -> new Sums(WAY_VALUES)), flow, Direction.IN);
      }
    }
    ways.forEach((customer, own) -> spread(own, sums, customer));
  }

  private static void count(Sums ways, FlowCursor flow, Direction direction) {
    int began = flow.isOverflow() ? 0 : flow.began();
    boolean sent = flow.packetsForward() != 0;
    if (sent) {
      way(ways, flow, true, direction, began);
    }
    if (flow.packetsReverse() != 0) {
      way(ways, flow, false, direction.back(), sent ? 0 : began);
    }
  }

  private static void way(
      Sums ways, FlowCursor flow, boolean forward, Direction direction, int began) {
    // AS and country of the end outside, the sender's but for what goes out; the customer of the
    // end inside, the sender's but for what comes in.
    boolean outer = forward == (direction != Direction.OUT);
    boolean inner = forward == (direction != Direction.IN);
    long high =
        (long) flow.application() << 32
            | (long) flow.country(outer) << 16
            | (flow.isOverflow() ? 16 : 0)
            | (flow.isIpv6() ? 8 : 0)
            | direction.ordinal();
    long low = (long) flow.system(outer) << 32 | (flow.customer(inner) & 0xffffffffL);
    int into = ways.at(high, low) + Sums.KEY;
    long[] sums = ways.cells();
    sums[into] += flow.octetsSent(forward);
    sums[into + 1] += flow.packetsSent(forward);
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
