package io.weir.jobs.indicators;

import io.weir.jobs.window.FlowCursor;
import io.weir.jobs.window.Flows;
import io.weir.jobs.window.Hosts;
import io.weir.jobs.window.Sections;

/**
 * The counts of each host of a bucket in the window. All of a host's traffic is in one bucket, so
 * its counts here are complete.
 */
final class HostCounts {
  private final Flows flows;
  private final Hosts hosts;
  private final long[] stats;
  private final HostStats one;

  HostCounts(Flows flows) {
    this.flows = flows;
    hosts = flows.hosts();
    stats = new long[hosts.known() * HostLists.STRIDE];
    one = new HostStats(stats);
  }

  /** The counts of a host; the next call reuses the same object for another host. */
  HostStats of(int host) {
    return one.place(host * HostLists.STRIDE);
  }

  /** Appends the numbers of a host to a row of a digest. */
  void addTo(Sections sections, int host) {
    sections.add(stats, host * HostLists.STRIDE, HostStats.SIZE);
  }

  /** Counts the activity of the flow's source or destination. */
  void count(FlowCursor flow, int host, boolean source, Scans scans) {
    int into = host * HostLists.STRIDE;
    int kind = Kind.of(flow.protocol());
    boolean twoWay = !flow.isOneWay();
    long sent = flow.packetsSent(source);
    long received = flow.packetsSent(!source);
    if (kind == Kind.TCP && twoWay) {
      if (flow.hasTcpFlags()) {
        stats[into + HostStats.SYN_SENT] += flow.synSent(source);
        stats[into + HostStats.SYNACK_SENT] += flow.synackSent(source);
        stats[into + HostStats.FIN_SENT] += flow.finSent(source);
        stats[into + HostStats.RST_SENT] += flow.rstSent(source);
        stats[into + HostStats.SYN_RECV] += flow.synSent(!source);
        stats[into + HostStats.SYNACK_RECV] += flow.synackSent(!source);
        stats[into + HostStats.FIN_RECV] += flow.finSent(!source);
        stats[into + HostStats.RST_RECV] += flow.rstSent(!source);
      }
      stats[into + HostStats.TCP_SENT] += sent;
      stats[into + HostStats.TCP_RECV] += received;
    } else if (kind == Kind.UDP && twoWay) {
      stats[into + HostStats.UDP_SENT] += sent;
    }
    if (flow.hasIcmpErrors()) {
      stats[into + HostStats.ICMP_SENT] += flow.icmpErrorsSent(source);
      stats[into + HostStats.ICMP_RECV] += flow.icmpErrorsSent(!source);
      if (kind != Kind.TCP) {
        stats[into + HostStats.ICMP_RECV_UDP] += flow.icmpErrorsUdpSent(!source);
      }
    }
    if (flow.isOverflow()) {
      stats[into + HostStats.OVERFLOW] += sent + received;
      stats[into + HostStats.OVERFLOW_TCP] += kind == Kind.TCP && twoWay ? sent + received : 0;
    }
    if (source && kind >= 0 && Kind.begins(flow, kind)) {
      stats[into + HostStats.BEGAN + kind]++;
      if (kind < Scans.WITH_PORTS) {
        scans.port(host, kind, flow.port(false));
      }
    }
    for (CountedList list : HostLists.COUNTED) {
      stats[into + list.place()] += list.count(flow, source);
    }
    belongs(host, Integer.toUnsignedLong(flow.customer(source)), flow.isLocal(source));
  }

  /** Sets the host's customer, and whether the host is local. */
  void belongs(int host, long customer, boolean local) {
    int into = host * HostLists.STRIDE;
    stats[into + HostStats.CUSTOMER] = Math.max(stats[into + HostStats.CUSTOMER], customer);
    if (local) {
      stats[into + HostStats.LOCAL] = 1;
    }
  }

  /** Sets the number of hosts that a host could not reach, and the number that answered it. */
  void contacts(int host, long failed, long answered) {
    stats[host * HostLists.STRIDE + HostStats.FAILED] = failed;
    stats[host * HostLists.STRIDE + HostStats.ANSWERED] = answered;
  }

  /** Whether the window covers all probes. */
  boolean national() {
    return flows.national();
  }

  Hosts hosts() {
    return hosts;
  }
}
