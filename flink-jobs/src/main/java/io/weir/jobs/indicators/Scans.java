package io.weir.jobs.indicators;

import io.weir.jobs.window.Best;
import io.weir.jobs.window.FlowCursor;
import io.weir.jobs.window.Flows;
import io.weir.jobs.window.Hosts;
import io.weir.jobs.window.Sketches;
import io.weir.jobs.window.Sums;
import java.util.Arrays;
import java.util.List;
import java.util.function.IntFunction;
import java.util.stream.IntStream;

/**
 * Distinct destinations and destination ports of the flows that hosts began. The counts are exact,
 * and made only for hosts that may enter a list; overflow records add the estimates of their
 * sketches.
 */
final class Scans {
  /** Kinds of protocol below this number have ports. */
  static final int WITH_PORTS = Kind.ICMP;

  private static final int ADDRESSES = Sums.KEY;
  private static final int PORTS = Sums.KEY + 1;
  private static final int ERROR = Sums.KEY + 2;

  private final Hosts hosts;
  private final FlowCursor flow;
  private final HostCounts counts;

  /** The lists of each kind. */
  private final List<List<ScanList>> lists;

  /**
   * For each host, for TCP and UDP: an upper bound of its distinct destination ports (the first
   * four, plus one for each flow to another port), and these first four, 16 bits each.
   */
  private final int[] portBounds;

  private final long[] firstPorts;

  /** Estimated distinct destinations in overflow records, by host and kind of protocol. */
  private final Sums sketched = new Sums(1);

  private final Sums peers = new Sums(0);
  private final Sums dstPorts = new Sums(0);

  /**
   * Sums of the hosts whose distinct addresses and ports were counted; the kind is the second key.
   */
  private final Sums distinct = new Sums(3);

  Scans(Flows flows, HostCounts counts) {
    this.counts = counts;
    hosts = flows.hosts();
    flow = flows.cursor();
    portBounds = new int[WITH_PORTS * hosts.known()];
    firstPorts = new long[WITH_PORTS * hosts.known()];
    lists = IntStream.range(0, Kind.COUNT).mapToObj(Scans::listsOf).toList();
    long[] rows = flows.sketches();
    for (int at = 0; at < rows.length; at += Sketches.STRIDE) {
      int host = hosts.find(rows[at], rows[at + 1]);
      int kind = Kind.of((int) rows[at + 2]);
      if (host >= 0 && kind >= 0) {
        sketched.add(host, kind, 0, Sketches.estimate(rows, at));
      }
    }
  }

  private static List<ScanList> listsOf(int kind) {
    return HostLists.ALL.stream()
        .filter(ScanList.class::isInstance)
        .map(ScanList.class::cast)
        .filter(list -> list.kind() == kind)
        .toList();
  }

  /** Counts a destination port, unless it is one of the first four remembered. */
  void port(int host, int kind, long port) {
    int at = WITH_PORTS * host + kind;
    int known = Math.min(portBounds[at], 4);
    long first = firstPorts[at];
    for (int i = 0; i < known; i++) {
      if ((first >>> (16 * i) & 0xffff) == port) {
        return;
      }
    }
    if (known < 4) {
      firstPorts[at] = first | port << (16 * known);
    }
    portBounds[at]++;
  }

  /** Distinct destinations, estimated from the sketches of overflow records. */
  long sketched(int host, int kind) {
    return sketched.size() == 0 ? 0 : sketched.get(host, kind, 0);
  }

  /**
   * Offers hosts to the lists by distinct destinations and ports. A host's number of either is
   * bounded by the flows that it began plus the estimates from its overflow records: hosts with the
   * highest bound are counted first, and hosts that can no longer enter a list are not counted.
   *
   * @param listsOf returns a scope's lists by their ids; scope 0 stands for all hosts
   */
  void offer(IntFunction<Best[]> listsOf) {
    for (int kind = 0; kind < Kind.COUNT; kind++) {
      long[] bounds = new long[hosts.size()];
      int candidates = 0;
      for (int host = 0; host < hosts.size(); host++) {
        long bound = counts.of(host).get(HostStats.BEGAN + kind) + sketched(host, kind);
        if (bound >= ScanList.LEAST) {
          bounds[candidates++] = -Math.min(bound, Integer.MAX_VALUE) << 32 | host;
        }
      }
      Arrays.sort(bounds, 0, candidates);
      for (int i = 0; i < candidates; i++) {
        int host = (int) bounds[i];
        long bound = -(bounds[i] >> 32);
        int customer = counts.of(host).customer();
        Best[] all = listsOf.apply(0);
        Best[] own = counts.national() && customer != 0 ? listsOf.apply(customer) : null;
        long ports = kind < WITH_PORTS ? portBounds[WITH_PORTS * host + kind] : 0;
        if (mayEnter(all, kind, bound, ports)
            || (own != null && mayEnter(own, kind, bound, ports))) {
          int at = count(host, kind);
          offer(all, kind, host, at);
          if (own != null) {
            offer(own, kind, host, at);
          }
        }
      }
    }
  }

  private boolean mayEnter(Best[] into, int kind, long addresses, long ports) {
    for (ScanList list : lists.get(kind)) {
      if (list.value(addresses, ports) >= Math.max(ScanList.LEAST, into[list.id()].least())) {
        return true;
      }
    }
    return false;
  }

  private void offer(Best[] into, int kind, int host, int at) {
    long[] cells = distinct.cells();
    for (ScanList list : lists.get(kind)) {
      long value = list.value(cells[at + ADDRESSES], cells[at + PORTS]);
      if (value >= ScanList.LEAST) {
        into[list.id()].offer(value, host);
      }
    }
  }

  /**
   * Counts the distinct destinations and ports of the flows that a host initiated; returns the
   * index of the sums.
   */
  private int count(int host, int kind) {
    int known = distinct.find(host, kind);
    if (known >= 0) {
      return known;
    }
    peers.clear();
    dstPorts.clear();
    for (int end = hosts.first(host); end >= 0; end = hosts.next(end)) {
      flow.seek(Hosts.flow(end));
      if (Hosts.isSource(end) && Kind.of(flow.protocol()) == kind && Kind.begins(flow, kind)) {
        if (!flow.isOverflow()) {
          peers.at(flow.high(false), flow.low(false));
        }
        dstPorts.at(flow.port(false), 0);
      }
    }
    int at = distinct.at(host, kind);
    long estimate = sketched(host, kind);
    long[] into = distinct.cells();
    into[at + ADDRESSES] = peers.size() + estimate;
    into[at + PORTS] = dstPorts.size();
    into[at + ERROR] = error(estimate, peers.size());
    return at;
  }

  /**
   * Three standard errors of the estimate, plus the number of destinations that may also have been
   * counted exactly.
   */
  static long error(long estimate, long exact) {
    return (long) Math.ceil(3 * Sketches.STANDARD_ERROR * estimate) + Math.min(estimate, exact);
  }

  /** Distinct destinations of a host in a list. */
  long addresses(int host, int kind) {
    return distinct.get(host, kind, ADDRESSES - Sums.KEY);
  }

  /** Distinct destination ports of a host in a list. */
  long ports(int host, int kind) {
    return distinct.get(host, kind, PORTS - Sums.KEY);
  }

  /** The error bound of {@link #addresses}. */
  long error(int host, int kind) {
    return distinct.get(host, kind, ERROR - Sums.KEY);
  }
}
