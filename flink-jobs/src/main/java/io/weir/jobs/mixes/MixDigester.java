package io.weir.jobs.mixes;

import io.weir.jobs.message.Direction;
import io.weir.jobs.window.Digester;
import io.weir.jobs.window.FlowCursor;
import io.weir.jobs.window.Flows;
import io.weir.jobs.window.Sums;
import java.util.Map;
import java.util.TreeMap;

/**
 * A bucket's part of the mixes: octets, packets and flows, IPv4 and IPv6 separately, by
 * application, AS, country, customer, and AS with application, for each way that packets went. Each
 * packet is counted once in every dimension, so the values of each dimension add up to the total.
 *
 * <p>"Inside" means the probe's site for a single probe, the nation for all probes, and the
 * customer for a customer. Each flow is counted in two directions: the packets that its source
 * sent, and those that it received. Its beginning is counted in both if they are in and out;
 * otherwise once, with the packets that its source sent or, if the source has not sent yet, with
 * those that it received.
 */
final class MixDigester implements Digester {
  private static final long serialVersionUID = 1;

  /**
   * Number of sums per entry: octets, packets and flows of IPv4; octets, packets and flows of IPv6;
   * octets of overflow records.
   */
  static final int OCTETS = 0;

  static final int PACKETS = 1;
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
    // Add up by all dimensions together, with one look-up for each way of a flow, then by each
    // dimension.
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

  /** The flows of each customer, seen from the customer. */
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
      Direction back = direction.back();
      way(ways, flow, false, back, sent && back == direction ? 0 : began);
    }
  }

  private static void way(
      Sums ways, FlowCursor flow, boolean source, Direction direction, int began) {
    Way way = new Way();
    way.set(flow, source, direction);
    int into = ways.at(way.high, way.low) + Sums.KEY;
    long[] sums = ways.cells();
    sums[into] += flow.octetsSent(source);
    sums[into + 1] += flow.packetsSent(source);
    sums[into + 2] += began;
  }

  /** Adds the sums by way to the sums of each dimension. */
  private static void spread(Sums ways, Sums sums, int scope) {
    long[] cells = ways.cells();
    Way way = new Way();
    for (int at = 0; at < ways.size() * ways.stride(); at += ways.stride()) {
      way.high = cells[at];
      way.low = cells[at + 1];
      int version = way.isIpv6() ? IPV6 : 0;
      boolean overflow = way.isOverflow();
      long octets = cells[at + Sums.KEY];
      long packets = cells[at + Sums.KEY + 1];
      int began = (int) cells[at + Sums.KEY + 2];
      long key = (long) scope << 16 | way.direction();
      for (Dimension dimension : Dimension.ALL) {
        long value = dimension.key(way);
        add(sums, key | dimension.id() << 8, value, version, octets, packets, began, overflow);
      }
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
