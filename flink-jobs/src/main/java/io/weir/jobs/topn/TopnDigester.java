package io.weir.jobs.topn;

import io.weir.jobs.window.Best;
import io.weir.jobs.window.BestLists;
import io.weir.jobs.window.Digester;
import io.weir.jobs.window.FlowCursor;
import io.weir.jobs.window.Flows;
import io.weir.jobs.window.Hosts;
import io.weir.jobs.window.Sections;
import io.weir.jobs.window.Sums;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;

/**
 * One bucket's part of a window's top lists: its largest flows and hosts, which are in no other
 * bucket, and its part of the sums by port, AS and customer. For all probes together, there is also
 * a part for each customer.
 */
record TopnDigester(int top) implements Digester {
  /** Sections: sums by scope; flows; sums by key; hosts; error bound. */
  static final int TOTALS = 1;

  static final int FLOWS = 2;
  static final int KEYS = 3;
  static final int HOSTS = 4;
  static final int ERROR = 5;

  /**
   * Layout of a row of flows: scope, list, value, then the numbers that {@link FlowCursor#addTo}
   * appends.
   */
  static final int FLOW_KEY = 3;

  static final int FLOW_STRIDE = 12;

  /** Layout of a row of hosts: scope, list, octets, address, sums. */
  static final int HOST_KEY = 3;

  static final int HOST_SUMS = 5;

  /**
   * Subtracted from the ids of lists in keys and rows, because state contains them in that form.
   */
  static final int FIRST_LIST = 1;

  static final int FIRST_KEY = 3;

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

  @Override
  public long[] digest(Flows flows) {
    return new Work(flows, top).digest();
  }

  /** One digest. */
  private static final class Work implements TalkerList.Ends {
    private final Flows flows;
    private final FlowCursor flow;
    private final int top;
    private final Sums totals = new Sums(TOTAL_VALUES);
    private final Sums keys = new Sums(VALUES);

    /** Scope and list that {@link #add} adds to. */
    private long group;

    private final BestLists flowLists;

    Work(Flows flows, int top) {
      this.flows = flows;
      this.top = top;
      flow = flows.cursor();
      flowLists = new BestLists(top, FlowList.ALL, flows::before);
    }

    long[] digest() {
      Best[] all = flowLists.of(0);
      while (flow.next()) {
        if (flow.isOwned()) {
          int src = flow.customer(true);
          int dst = flow.customer(false);
          count(0, all);
          if (flows.national() && src != 0) {
            count(src, flowLists.of(src));
          }
          if (flows.national() && dst != 0 && dst != src) {
            count(dst, flowLists.of(dst));
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

    /** Adds the flow to the lists and sums of a scope. */
    private void count(int scope, Best[] lists) {
      long octets = flow.octets();
      long packets = flow.packets();
      int total = totals.at(scope, 0) + Sums.KEY;
      long[] sums = totals.cells();
      sums[total + TOTAL_OCTETS] += octets;
      sums[total + TOTAL_PACKETS] += packets;
      if (flow.isOverflow()) {
        sums[total + TOTAL_OVERFLOW] += octets;
      } else {
        sums[total + TOTAL_FLOWS]++;
        int number = flow.number();
        for (FlowList list : FlowList.of(flow.protocol())) {
          lists[list.id()].offer(list.value(flow), number);
        }
      }
      for (TalkerList.ByKey list : TalkerLists.KEYS) {
        if (scope == 0 || list.isOfCustomers()) {
          group = (long) scope << 8 | (list.id() - FIRST_KEY);
          list.add(flow, this);
        }
      }
    }

    @Override
    public void add(long key, boolean source, boolean counts) {
      int sums = keys.at(group, key) + Sums.KEY;
      end(keys.cells(), sums, flow, source, counts);
    }

    /** The hosts of this bucket, with complete sums. */
    private void hosts(Sections sections) {
      Hosts hosts = flows.hosts();
      long[] sums = new long[hosts.size() * VALUES];
      int[] customers = new int[hosts.size()];
      FlowCursor each = flows.cursor();
      while (each.next()) {
        int src = hosts.of(each, true);
        int dst = hosts.of(each, false);
        if (src >= 0) {
          end(sums, src * VALUES, each, true, true);
          customers[src] = Math.max(customers[src], each.customer(true));
        }
        if (dst >= 0) {
          end(sums, dst * VALUES, each, false, dst != src);
          customers[dst] = Math.max(customers[dst], each.customer(false));
        }
      }
      Map<Integer, List<Top>> scopes = new TreeMap<>();
      Function<Integer, List<Top>> lists =
          scope ->
              TalkerLists.HOSTS.stream()
                  .map(list -> new Top(list, top, hosts::before, sums, host -> host * VALUES))
                  .toList();
      List<Top> all = scopes.computeIfAbsent(0, lists);
      for (int host = 0; host < hosts.size(); host++) {
        offer(0, all, host);
        if (flows.national() && customers[host] != 0) {
          offer(customers[host], scopes.computeIfAbsent(customers[host], lists), host);
        }
      }
      sections.begin(HOSTS, HOST_SUMS + VALUES);
      scopes.forEach(
          (scope, own) -> {
            for (int i = 0; i < own.size(); i++) {
              TalkerList list = TalkerLists.HOSTS.get(i);
              for (Top.Place place : own.get(i).take()) {
                int host = place.item();
                sections.add(scope);
                sections.add(list.id() - FIRST_LIST);
                sections.add(list.value(TalkerList.By.OCTETS, sums, host * VALUES));
                sections.add(hosts.high(host));
                sections.add(hosts.low(host));
                sections.add(sums, host * VALUES, VALUES);
              }
            }
          });
      sections.end();
    }

    private void offer(int scope, List<Top> lists, int host) {
      totals.add(scope, 0, TOTAL_HOSTS, 1);
      for (Top list : lists) {
        list.offer(host);
      }
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
            for (FlowList list : FlowList.ALL) {
              for (int number : lists[list.id()].take()) {
                flow.seek(number);
                sections.add(scope);
                sections.add(list.id() - FIRST_LIST);
                sections.add(list.value(flow));
                flow.addTo(sections);
              }
            }
          });
      sections.end();
    }
  }

  /** Adds what the source or the destination of a flow sent and received to its sums. */
  private static void end(long[] sums, int into, FlowCursor flow, boolean source, boolean count) {
    long sent = flow.octetsSent(source);
    long received = flow.octetsSent(!source);
    sums[into + IN_OCTETS] += received;
    sums[into + IN_PACKETS] += flow.packetsSent(!source);
    sums[into + OUT_OCTETS] += sent;
    sums[into + OUT_PACKETS] += flow.packetsSent(source);
    if (flow.isOverflow()) {
      sums[into + OVERFLOW] += received + sent;
    } else if (count) {
      sums[into + COUNT]++;
    }
  }
}
