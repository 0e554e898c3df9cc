package io.weir.jobs.topn;

import io.weir.jobs.window.Best;
import io.weir.jobs.window.Cells;
import io.weir.jobs.window.Digester;
import io.weir.jobs.window.FlowTable;
import io.weir.jobs.window.Flows;
import io.weir.jobs.window.Hosts;
import io.weir.jobs.window.Sections;
import io.weir.jobs.window.Sums;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;

/**
 * What one bucket knows for the top lists of a window: its own largest flows and hosts, since those
 * are in no other bucket, and its part of the sums by port, AS and customer. Over all probes the
 * same for each customer.
 */
final class TopnDigester implements Digester {
  private static final long serialVersionUID = 1;

  /** Sections: sums by scope; flows; sums by key; hosts; how exact it is. */
  static final int TOTALS = 1;

  static final int FLOWS = 2;
  static final int KEYS = 3;
  static final int HOSTS = 4;
  static final int ERROR = 5;

  /** A row of flows: scope, list, value, key and octets and packets as in {@link FlowTable}. */
  static final int FLOW_KEY = 3;

  static final int FLOW_STRIDE = 12;

  /** A row of hosts: scope, list, value, address, sums. */
  static final int HOST_KEY = 3;

  /** Lists of flows; in each pair the first is by octets, the second by packets. */
  static final int IP = 0;

  static final int TCP = 2;
  static final int UDP = 4;
  static final int ICMP = 6;
  static final int FLOW_LISTS = 8;

  /** What sums are kept by. */
  static final int PORT_TCP = 0;

  static final int PORT_UDP = 1;
  static final int AS = 2;
  static final int CUSTOMER = 3;

  /** Sums of a key or a host: octets and packets in and out, flows, octets of overflow records. */
  static final int IN_OCTETS = 0;

  static final int IN_PACKETS = 1;
  static final int OUT_OCTETS = 2;
  static final int OUT_PACKETS = 3;
  static final int COUNT = 4;
  static final int OVERFLOW = 5;
  static final int VALUES = 6;

  /** Sums of a scope. */
  static final int TOTAL_OCTETS = 0;

  static final int TOTAL_PACKETS = 1;
  static final int TOTAL_FLOWS = 2;
  static final int TOTAL_HOSTS = 3;
  static final int TOTAL_OVERFLOW = 4;
  static final int TOTAL_DUPLICATE = 5;
  static final int TOTAL_VALUES = 6;

  private final int top;

  TopnDigester(int top) {
    this.top = top;
  }

  @Override
  public long[] digest(Flows flows) {
    return new Work(flows, top).digest();
  }

  /** One digest. */
  private static final class Work {
    private final Flows flows;
    private final long[] cells;
    private final int top;
    private final Sums totals = new Sums(TOTAL_VALUES);
    private final Sums keys = new Sums(VALUES);
    private final Map<Integer, Best[]> flowLists = new TreeMap<>();
    private final Map<Integer, Best[]> hostLists = new TreeMap<>();

    Work(Flows flows, int top) {
      this.flows = flows;
      this.top = top;
      cells = flows.cells();
    }

    long[] digest() {
      Best[] all = flowLists(0);
      for (int flow = 0; flow < flows.size(); flow++) {
        int at = flow * FlowTable.STRIDE;
        if (flows.owns(at)) {
          int src = (int) (cells[at + FlowTable.CUSTOMER] >>> 32);
          int dst = (int) cells[at + FlowTable.CUSTOMER];
          flow(0, all, flow, at);
          ends(0, CUSTOMER, src, dst, at);
          if (flows.national() && src != 0) {
            flow(src, flowLists(src), flow, at);
          }
          if (flows.national() && dst != 0 && dst != src) {
            flow(dst, flowLists(dst), flow, at);
          }
        }
      }
      int total = totals.at(0, 0) + Sums.KEY;
      totals.cells()[total + TOTAL_DUPLICATE] = flows.duplicateOctets();
      Sections sections = new Sections();
      hosts(sections);
      written(sections);
      return sections.toArray();
    }

    private Best[] flowLists(int scope) {
      return flowLists.computeIfAbsent(
          scope,
          key -> {
            Best[] lists = new Best[FLOW_LISTS];
            Arrays.setAll(
                lists,
                list ->
                    new Best(
                        top,
                        (a, b) ->
                            Cells.before(cells, a * FlowTable.STRIDE, b * FlowTable.STRIDE, 5)));
            return lists;
          });
    }

    /** Takes the flow into the lists and sums of a scope. */
    private void flow(int scope, Best[] lists, int flow, int at) {
      long tuple = cells[at + FlowTable.TUPLE];
      long octets = cells[at + FlowTable.FWD_OCTETS] + cells[at + FlowTable.REV_OCTETS];
      long packets = cells[at + FlowTable.FWD_PACKETS] + cells[at + FlowTable.REV_PACKETS];
      int protocol = FlowTable.protocol(tuple);
      int total = totals.at(scope, 0) + Sums.KEY;
      long[] sums = totals.cells();
      sums[total + TOTAL_OCTETS] += octets;
      sums[total + TOTAL_PACKETS] += packets;
      if (FlowTable.overflowKey(tuple) == 0) {
        sums[total + TOTAL_FLOWS]++;
        lists[IP].offer(octets, flow);
        lists[IP + 1].offer(packets, flow);
        int own = protocol == 6 ? TCP : protocol == 17 ? UDP : isIcmp(protocol) ? ICMP : -1;
        if (own >= 0) {
          lists[own].offer(octets, flow);
          lists[own + 1].offer(packets, flow);
        }
      } else {
        sums[total + TOTAL_OVERFLOW] += octets;
      }
      if ((protocol == 6 || protocol == 17) && FlowTable.overflowKey(tuple) != 3) {
        int kind = protocol == 6 ? PORT_TCP : PORT_UDP;
        add(scope, kind, FlowTable.dstPort(tuple), at, FlowTable.isBack(tuple), true);
      }
      long as = cells[at + FlowTable.AS];
      ends(scope, AS, (int) (as >>> 32), (int) as, at);
    }

    /** Adds to the sums of what the source and the destination belong to, where that is known. */
    private void ends(int scope, int kind, int src, int dst, int at) {
      if (src != 0) {
        add(scope, kind, Integer.toUnsignedLong(src), at, true, true);
      }
      if (dst != 0) {
        add(scope, kind, Integer.toUnsignedLong(dst), at, false, dst != src);
      }
    }

    private void add(int scope, int kind, long key, int at, boolean source, boolean count) {
      int sums = keys.at((long) scope << 8 | kind, key) + Sums.KEY;
      end(keys.cells(), sums, cells, at, source, count);
    }

    /** The hosts whose bucket this is, whole. */
    private void hosts(Sections sections) {
      Hosts hosts = flows.hosts();
      long[] sums = new long[hosts.size() * VALUES];
      int[] customers = new int[hosts.size()];
      for (int flow = 0; flow < flows.size(); flow++) {
        int at = flow * FlowTable.STRIDE;
        int src = hosts.of(flow, 0);
        int dst = hosts.of(flow, 1);
        if (src >= 0) {
          end(sums, src * VALUES, cells, at, true, true);
          customers[src] = Math.max(customers[src], (int) (cells[at + FlowTable.CUSTOMER] >>> 32));
        }
        if (dst >= 0) {
          end(sums, dst * VALUES, cells, at, false, dst != src);
          customers[dst] = Math.max(customers[dst], (int) cells[at + FlowTable.CUSTOMER]);
        }
      }
      Best[] all = hostLists(0, hosts);
      for (int host = 0; host < hosts.size(); host++) {
        offer(0, all, host, sums);
        if (flows.national() && customers[host] != 0) {
          offer(customers[host], hostLists(customers[host], hosts), host, sums);
        }
      }
      sections.begin(HOSTS, HOST_KEY + 2 + VALUES);
      hostLists.forEach(
          (scope, lists) -> {
            for (int list = 0; list < 2; list++) {
              for (int host : lists[list].take()) {
                sections.add(scope);
                sections.add(list);
                sections.add(sums[host * VALUES + (list == 0 ? IN_OCTETS : OUT_OCTETS)]);
                sections.add(hosts.high(host));
                sections.add(hosts.low(host));
                sections.add(sums, host * VALUES, VALUES);
              }
            }
          });
      sections.end();
    }

    private Best[] hostLists(int scope, Hosts hosts) {
      return hostLists.computeIfAbsent(
          scope, key -> new Best[] {new Best(top, hosts::before), new Best(top, hosts::before)});
    }

    private void offer(int scope, Best[] lists, int host, long[] sums) {
      totals.add(scope, 0, TOTAL_HOSTS, 1);
      lists[0].offer(sums[host * VALUES + IN_OCTETS], host);
      lists[1].offer(sums[host * VALUES + OUT_OCTETS], host);
    }

    private void written(Sections sections) {
      sections.begin(TOTALS, totals.stride());
      sections.add(totals.cells(), 0, totals.size() * totals.stride());
      sections.end();
      sections.begin(ERROR, 1);
      sections.add(flows.errorOctets());
      sections.end();
      sections.begin(KEYS, keys.stride());
      sections.add(keys.cells(), 0, keys.size() * keys.stride());
      sections.end();
      sections.begin(FLOWS, FLOW_STRIDE);
      flowLists.forEach(
          (scope, lists) -> {
            for (int list = 0; list < FLOW_LISTS; list++) {
              for (int flow : lists[list].take()) {
                int at = flow * FlowTable.STRIDE;
                int by = list % 2 == 0 ? FlowTable.FWD_OCTETS : FlowTable.FWD_PACKETS;
                sections.add(scope);
                sections.add(list);
                sections.add(cells[at + by] + cells[at + by + 2]);
                sections.add(cells, at, FlowTable.REV_PACKETS + 1);
              }
            }
          });
      sections.end();
    }
  }

  /** Adds what the source or the destination of a flow sent and received to its sums. */
  private static void end(
      long[] sums, int into, long[] cells, int at, boolean source, boolean count) {
    int sent = at + (source ? FlowTable.FWD_OCTETS : FlowTable.REV_OCTETS);
    int received = at + (source ? FlowTable.REV_OCTETS : FlowTable.FWD_OCTETS);
    sums[into + IN_OCTETS] += cells[received];
    sums[into + IN_PACKETS] += cells[received + 1];
    sums[into + OUT_OCTETS] += cells[sent];
    sums[into + OUT_PACKETS] += cells[sent + 1];
    if (FlowTable.overflowKey(cells[at + FlowTable.TUPLE]) != 0) {
      sums[into + OVERFLOW] += cells[received] + cells[sent];
    } else if (count) {
      sums[into + COUNT]++;
    }
  }

  private static boolean isIcmp(int protocol) {
    return protocol == 1 || protocol == 58;
  }
}
