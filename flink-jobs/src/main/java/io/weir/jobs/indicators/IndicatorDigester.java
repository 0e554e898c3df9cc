package io.weir.jobs.indicators;

import io.weir.jobs.window.Best;
import io.weir.jobs.window.BestLists;
import io.weir.jobs.window.Buckets;
import io.weir.jobs.window.Digester;
import io.weir.jobs.window.FlowCursor;
import io.weir.jobs.window.Flows;
import io.weir.jobs.window.Hosts;
import io.weir.jobs.window.Sections;
import io.weir.jobs.window.Sums;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Map;
import java.util.TreeMap;

/**
 * One bucket's results on its hosts: its part of the sums ({@link Indicator}), of the TCP port
 * report ({@link PortReport}) and of the lists ({@link HostList}).
 *
 * @param top rows of a list
 * @param report rows of the port report
 */
record IndicatorDigester(int top, int report) implements Digester {
  /** Sections: sums by scope; rows of the port report; lists; where the report was cut. */
  static final int TOTALS = 1;

  static final int REPORT = 2;
  static final int LISTS = 3;
  static final int CUT = 4;

  /** Layout of a list's row: scope, list, value, its error, address, stats, addresses, ports. */
  static final int LIST_ERROR = 3;

  static final int LIST_ADDRESS = 4;
  static final int LIST_STATS = 6;
  static final int LIST_ADDRESSES = LIST_STATS + HostStats.SIZE;
  static final int LIST_PORTS = LIST_ADDRESSES + 1;
  static final int LIST_STRIDE = LIST_ADDRESSES + 2;

  @Override
  public long[] digest(Flows flows) {
    return new Work(flows).digest();
  }

  /** One digest. */
  private final class Work {
    private final Flows flows;
    private final Hosts hosts;
    private final HostCounts counts;
    private final Scans scans;
    private final Contacts contacts;
    private final Sums totals = new Sums(Indicator.ALL.size());
    private final BestLists lists;

    Work(Flows flows) {
      this.flows = flows;
      hosts = flows.hosts();
      counts = new HostCounts(flows);
      scans = new Scans(flows, counts);
      contacts = new Contacts(flows.attempts(), counts);
      lists = new BestLists(top, HostLists.ALL, hosts::before);
    }

    long[] digest() {
      flows();
      contacts.judge(host -> false);
      Best reported = new Best(shareOfReport(), hosts::before);
      Best[] all = lists.of(0);
      for (int host = 0; host < hosts.known(); host++) {
        HostStats stats = counts.of(host);
        count(0, all, stats, host);
        if (flows.national() && stats.customer() != 0) {
          count(stats.customer(), lists.of(stats.customer()), stats, host);
        }
        if (stats.isReported()) {
          reported.offer(stats.reportOrder(), host);
        }
      }
      scans.offer(lists::of);
      Sections sections = new Sections();
      sections.begin(TOTALS, totals.stride());
      sections.add(totals.cells(), 0, totals.size() * totals.stride());
      sections.end();
      report(reported, sections);
      lists(sections);
      return sections.toArray();
    }

    /** Counts the flows, for both of their hosts and over all hosts. */
    private void flows() {
      long[] sums = new long[Indicator.ALL.size()];
      FlowCursor flow = flows.cursor();
      while (flow.next()) {
        int src = hosts.of(flow, true);
        int dst = hosts.of(flow, false);
        if (src >= 0) {
          counts.count(flow, src, true, scans);
        }
        if (dst >= 0) {
          counts.count(flow, dst, false, scans);
        }
        for (Indicator indicator : Indicator.BY_FLOWS) {
          long more = indicator.of(flow);
          if (more != 0 && flow.isOwned()) {
            sums[indicator.place()] += more;
          }
        }
      }
      int into = totals.at(0, 0) + Sums.KEY;
      System.arraycopy(sums, 0, totals.cells(), into, sums.length);
    }

    private void count(int scope, Best[] best, HostStats stats, int host) {
      int into = totals.at(scope, 0) + Sums.KEY;
      long[] sums = totals.cells();
      boolean inFlows = host < hosts.size();
      for (Indicator indicator : Indicator.ALL) {
        sums[into + indicator.place()] += indicator.of(stats, scope, inFlows);
      }
      for (HostList list : HostLists.BY_STATS) {
        best[list.id()].offer(list.value(stats), host);
      }
    }

    /**
     * Maximum number of rows that one bucket contributes to the report: more than twice its share
     * of a full report. If a bucket has more rows, the report ends before the first row that it
     * left out, see {@link IndicatorRows}.
     */
    private int shareOfReport() {
      return Math.min(report, 32 + 2 * report / Buckets.COUNT);
    }

    private void report(Best reported, Sections sections) {
      sections.begin(CUT, 3);
      if (reported.last() >= 0) {
        sections.add(reported.least());
        sections.add(hosts.high(reported.last()));
        sections.add(hosts.low(reported.last()));
      }
      sections.end();
      sections.begin(REPORT, PortReport.STRIDE);
      PortReport rows = new PortReport(flows, counts, scans);
      for (int host : reported.take()) {
        rows.add(host, sections);
      }
      sections.end();
    }

    /**
     * Writes the lists; for a host in a list, it judges all first contacts, including answered
     * ones.
     */
    private void lists(Sections sections) {
      Map<Integer, int[][]> listed = new TreeMap<>();
      BitSet inLists = new BitSet(hosts.known());
      lists.forEach(
          (scope, ofScope) -> {
            int[][] taken = new int[ofScope.length][];
            for (HostList list : HostLists.ALL) {
              taken[list.id()] = ofScope[list.id()].take();
              Arrays.stream(taken[list.id()]).forEach(inLists::set);
            }
            listed.put(scope, taken);
          });
      contacts.judge(inLists::get);
      sections.begin(LISTS, LIST_STRIDE);
      listed.forEach(
          (scope, taken) -> {
            for (HostList list : HostLists.ALL) {
              for (int host : taken[list.id()]) {
                add(scope, list, host, sections);
              }
            }
          });
      sections.end();
    }

    private void add(int scope, HostList list, int host, Sections sections) {
      long addresses = 0;
      long ports = 0;
      long error = 0;
      long value;
      if (list instanceof ScanList scan) {
        addresses = scans.addresses(host, scan.kind());
        ports = scans.ports(host, scan.kind());
        error = scan.error(scans.error(host, scan.kind()));
        value = scan.value(addresses, ports);
      } else {
        value = list.value(counts.of(host));
      }
      sections.add(scope);
      sections.add(list.id());
      sections.add(value);
      sections.add(error);
      sections.add(hosts.high(host));
      sections.add(hosts.low(host));
      counts.addTo(sections, host);
      sections.add(addresses);
      sections.add(ports);
    }
  }
}
