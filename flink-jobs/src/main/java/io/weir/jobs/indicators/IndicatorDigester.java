package io.weir.jobs.indicators;

import io.weir.jobs.window.Attempts;
import io.weir.jobs.window.Best;
import io.weir.jobs.window.Buckets;
import io.weir.jobs.window.Digester;
import io.weir.jobs.window.FlowCursor;
import io.weir.jobs.window.Flows;
import io.weir.jobs.window.Hosts;
import io.weir.jobs.window.Sections;
import io.weir.jobs.window.Sketches;
import io.weir.jobs.window.Sums;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.IntPredicate;

/**
 * What one bucket knows of its hosts for the indicators of a window. A host is in one bucket with
 * all that it did, so what is said of it here is whole.
 *
 * <p>Definitions are Ourmon's (Binkley and Massey, "Ourmon and network monitoring performance",
 * 2005, and its manual) and, for first contacts, those of Jung and others, "Fast portscan detection
 * using sequential hypothesis testing", 2004, within one window. Distinct addresses and ports are
 * counted exactly, and only for hosts that may come into a list.
 */
final class IndicatorDigester implements Digester {
  private static final long serialVersionUID = 1;

  /** Sections: sums by scope; rows of the port report; lists; where the report was cut. */
  static final int TOTALS = 1;

  static final int REPORT = 2;
  static final int LISTS = 3;
  static final int CUT = 4;

  /**
   * A row of the report: order, address, stats, l3d, its error, l4d, ports with their share, ...
   */
  static final int REPORT_ADDRESS = 1;

  static final int REPORT_STATS = 3;
  static final int REPORT_L3D = REPORT_STATS + HostStats.SIZE;
  static final int REPORT_L3D_ERROR = REPORT_L3D + 1;
  static final int REPORT_L4D = REPORT_L3D + 2;
  static final int REPORT_PORTS = REPORT_L3D + 3;
  static final int PORTS = 10;
  static final int REPORT_STRIDE = REPORT_PORTS + 2 * PORTS;

  /** A row of a list: scope, list, value, its error, address, stats, addresses, ports. */
  static final int LIST_ERROR = 3;

  static final int LIST_ADDRESS = 4;
  static final int LIST_STATS = 6;
  static final int LIST_ADDRESSES = LIST_STATS + HostStats.SIZE;
  static final int LIST_PORTS = LIST_ADDRESSES + 1;
  static final int LIST_STRIDE = LIST_ADDRESSES + 2;

  /** Lists, as {@code list} in {@code top_indicators}. */
  static final int SYN_SENDERS = 1;

  static final int SCAN_ADDRESSES = 2; // TCP, UDP, ICMP
  static final int SCAN_PORTS = 5; // TCP, UDP
  static final int SCAN_FAILURES = 7;
  static final int ICMP_SENDERS = 8;
  static final int ICMP_CAUSERS = 9;
  static final int UDP_WORK_WEIGHT = 10;
  static final int LAST_LIST = 10;

  /** Sums of a scope. */
  static final int TOTAL_HOSTS = 0;

  static final int TOTAL_REPORT = 1;
  static final int TOTAL_US = 2;
  static final int TOTAL_THEM = 3;
  static final int TOTAL_SCANNERS = 4;
  static final int TOTAL_FAILED = 5;
  static final int TOTAL_SYN = 6;
  static final int TOTAL_TCP = 7;
  static final int TOTAL_ICMP = 8;
  static final int TOTAL_OVERFLOW = 9;
  static final int TOTAL_ONE_WAY = 10;
  static final int TOTAL_VALUES = 11;

  /** A scan reaches at least two of what is counted. */
  private static final int LEAST_SCAN = 2;

  private static final int[] PROTOCOLS = {6, 17, 1};

  private final int top;
  private final int report;
  private final int scanner;

  /**
   * Makes the digester.
   *
   * @param top rows of a list
   * @param report rows of the port report
   * @param scanner failed contacts more than answered ones that call a scanner
   */
  IndicatorDigester(int top, int report, int scanner) {
    this.top = top;
    this.report = report;
    this.scanner = scanner;
  }

  @Override
  public long[] digest(Flows flows) {
    return new Work(flows).digest();
  }

  /** Number of a protocol among those that are counted apart, -1 for another. */
  static int kind(int protocol) {
    return switch (protocol) {
      case 6 -> 0;
      case 17 -> 1;
      case 1, 58 -> 2;
      default -> -1;
    };
  }

  /** One digest. */
  private final class Work {
    private final Flows flows;
    private final FlowCursor flow;
    private final Hosts hosts;
    private final long[] stats;
    private final Sums totals = new Sums(TOTAL_VALUES);

    /**
     * For each host, TCP and UDP, a number that its distinct destination ports are not above (the
     * first four of them, and one for each flow to another); and those four, 16 bits each.
     */
    private final int[] portBounds;

    private final long[] firstPorts;

    /** Estimated distinct destinations in overflow records, by host and kind of protocol. */
    private final Sums sketched = new Sums(1);

    private final Map<Integer, Best[]> lists = new TreeMap<>();
    private final Sums peers = new Sums(0);
    private final Sums dstPorts = new Sums(2);
    private final Sums srcPorts = new Sums(2);

    /** Of hosts whose distinct addresses and ports were counted: kind is the second key. */
    private final Sums distinct = new Sums(3);

    Work(Flows flows) {
      this.flows = flows;
      flow = flows.cursor();
      hosts = flows.hosts();
      stats = new long[hosts.known() * HostStats.SIZE];
      portBounds = new int[2 * hosts.known()];
      firstPorts = new long[2 * hosts.known()];
    }

    long[] digest() {
      long oneWay = 0;
      long syns = 0; // of senders that no record names, too
      while (flow.next()) {
        end(hosts.of(flow, true), true);
        end(hosts.of(flow, false), false);
        if (flow.isOneWay()) {
          oneWay += flow.isOwned() ? flow.packets() : 0;
        } else if (kind(flow.protocol()) == 0 && flow.isOwned()) {
          syns += flow.synSent(true) + flow.synSent(false);
        }
      }
      sketches();
      contacts(host -> false);
      Best reported = new Best(shareOfReport(), hosts::before);
      for (int host = 0; host < hosts.known(); host++) {
        count(0, host);
        if (flows.national() && customer(host) != 0) {
          count(customer(host), host);
        }
        int at = host * HostStats.SIZE;
        if (HostStats.tcpPackets(stats, at) > 0) {
          reported.offer(HostStats.control(stats, at), host);
        }
      }
      scans();
      totals.add(0, 0, TOTAL_ONE_WAY, oneWay);
      totals.add(0, 0, TOTAL_SYN, syns);
      Sections sections = new Sections();
      sections.begin(TOTALS, totals.stride());
      sections.add(totals.cells(), 0, totals.size() * totals.stride());
      sections.end();
      sections.begin(CUT, 3);
      if (reported.last() >= 0) {
        sections.add(reported.least());
        sections.add(hosts.high(reported.last()));
        sections.add(hosts.low(reported.last()));
      }
      sections.end();
      sections.begin(REPORT, REPORT_STRIDE);
      for (int host : reported.take()) {
        report(host, sections);
      }
      sections.end();
      Map<Integer, int[][]> listed = new TreeMap<>();
      BitSet inLists = new BitSet(hosts.known());
      lists.forEach(
          (scope, ofScope) -> {
            int[][] taken = new int[LAST_LIST + 1][];
            for (int list = SYN_SENDERS; list <= LAST_LIST; list++) {
              taken[list] = ofScope[list].take();
              Arrays.stream(taken[list]).forEach(inLists::set);
            }
            listed.put(scope, taken);
          });
      contacts(inLists::get);
      sections.begin(LISTS, LIST_STRIDE);
      listed.forEach((scope, taken) -> write(scope, taken, sections));
      sections.end();
      return sections.toArray();
    }

    /**
     * Rows of the report that one bucket gives: twice what it would have of a full one, and more.
     * Where a bucket has more, the report ends above what it left out, see {@link IndicatorRows}.
     */
    private int shareOfReport() {
      return Math.min(report, 32 + 2 * report / Buckets.COUNT);
    }

    private int customer(int host) {
      return (int) stats[host * HostStats.SIZE + HostStats.CUSTOMER];
    }

    /** Counts what the flow's source or destination did. */
    private void end(int host, boolean source) {
      if (host < 0) {
        return;
      }
      int into = host * HostStats.SIZE;
      int kind = kind(flow.protocol());
      boolean twoWay = !flow.isOneWay();
      long sent = flow.packetsSent(source);
      long received = flow.packetsSent(!source);
      if (kind == 0 && twoWay) {
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
      } else if (kind == 1 && twoWay) {
        stats[into + HostStats.UDP_SENT] += sent;
      }
      if (flow.hasIcmpErrors()) {
        long errors = flow.icmpErrorsSent(!source);
        stats[into + HostStats.ICMP_SENT] += flow.icmpErrorsSent(source);
        stats[into + HostStats.ICMP_RECV] += errors;
        if (flow.quotesUdp()) {
          stats[into + HostStats.ICMP_RECV_UDP] += errors;
        }
      }
      if (flow.isOverflow()) {
        stats[into + HostStats.OVERFLOW] += sent + received;
        stats[into + HostStats.OVERFLOW_TCP] += kind == 0 && twoWay ? sent + received : 0;
      }
      if (source && kind >= 0 && begins(kind)) {
        stats[into + HostStats.BEGAN + kind]++;
        if (kind < 2) {
          port(host, kind, flow.port(false));
        }
      }
      belongs(into, Integer.toUnsignedLong(flow.customer(source)), flow.isLocal(source));
    }

    /** Notes whose host it is, and whether it is a local one. */
    private void belongs(int into, long customer, boolean local) {
      stats[into + HostStats.CUSTOMER] = Math.max(stats[into + HostStats.CUSTOMER], customer);
      if (local) {
        stats[into + HostStats.LOCAL] = 1;
      }
    }

    /** Whether the flow's source is known to have begun it, as far as its protocol can tell. */
    private boolean begins(int kind) {
      return !flow.isBack()
          && switch (kind) {
            case 0 -> !flow.isGuess();
            case 1 -> true;
            default -> !flow.hasIcmpErrors();
          };
    }

    private void sketches() {
      long[] rows = flows.sketches();
      for (int at = 0; at < rows.length; at += Sketches.STRIDE) {
        int host = hosts.find(rows[at], rows[at + 1]);
        int kind = kind((int) rows[at + 2]);
        if (host >= 0 && kind >= 0) {
          sketched.add(host, kind, 0, Sketches.estimate(rows, at));
        }
      }
    }

    private long sketched(int host, int kind) {
      return sketched.size() == 0 ? 0 : sketched.get(host, kind, 0);
    }

    /**
     * Judges the first contacts of those hosts that failed to reach someone, and of those in {@code
     * more}: whom each could not reach, and who answered it.
     */
    private void contacts(IntPredicate more) {
      Attempts attempts = flows.attempts();
      int[] last = new int[hosts.known()]; // attempt of the host + 1
      int[] previous = new int[attempts.size()];
      Sums judged = new Sums(0);
      for (int i = 0; i < attempts.size(); i++) {
        if (!attempts.answered(i)) {
          judged.at(attempts.high(i, true), attempts.low(i, true));
        }
      }
      for (int host = 0; host < hosts.known(); host++) {
        if (more.test(host)) {
          judged.at(hosts.high(host), hosts.low(host));
        }
      }
      if (judged.size() == 0) {
        return;
      }
      for (int i = 0; i < attempts.size(); i++) {
        long high = attempts.high(i, true);
        long low = attempts.low(i, true);
        if (judged.find(high, low) >= 0) {
          int host = hosts.find(high, low);
          previous[i] = last[host];
          last[host] = i + 1;
          belongs(
              host * HostStats.SIZE,
              Integer.toUnsignedLong(attempts.customer(i)),
              attempts.isLocal(i, flows.national()));
        }
      }
      Sums contacts = new Sums(1);
      for (int i = 0; i < judged.size(); i++) {
        int at = i * judged.stride();
        int host = hosts.find(judged.cells()[at], judged.cells()[at + 1]);
        contacts.clear();
        for (int attempt = last[host] - 1; attempt >= 0; attempt = previous[attempt] - 1) {
          long high = attempts.high(attempt, false);
          int into = contacts.at(high, attempts.low(attempt, false)) + Sums.KEY;
          contacts.cells()[into] |= attempts.answered(attempt) ? 1 : 0;
        }
        int answered = 0;
        for (int contact = 0; contact < contacts.size(); contact++) {
          answered += (int) contacts.cells()[contact * contacts.stride() + Sums.KEY];
        }
        stats[host * HostStats.SIZE + HostStats.ANSWERED] = answered;
        stats[host * HostStats.SIZE + HostStats.FAILED] = (long) contacts.size() - answered;
      }
    }

    private Best[] lists(int scope) {
      return lists.computeIfAbsent(
          scope,
          key -> {
            Best[] made = new Best[LAST_LIST + 1];
            Arrays.setAll(made, list -> new Best(top, hosts::before));
            return made;
          });
    }

    private void count(int scope, int host) {
      int at = host * HostStats.SIZE;
      int total = totals.at(scope, 0) + Sums.KEY;
      long[] sums = totals.cells();
      long lead = stats[at + HostStats.FAILED] - stats[at + HostStats.ANSWERED];
      sums[total + TOTAL_HOSTS] += host < hosts.size() ? 1 : 0;
      sums[total + TOTAL_REPORT] +=
          HostStats.control(stats, at) > 0 && HostStats.tcpPackets(stats, at) > 0 ? 1 : 0;
      if (HostStats.isWorm(stats, at)) {
        sums[total + (stats[at + HostStats.LOCAL] != 0 ? TOTAL_US : TOTAL_THEM)]++;
      }
      sums[total + TOTAL_SCANNERS] += lead >= scanner ? 1 : 0;
      sums[total + TOTAL_FAILED] += stats[at + HostStats.FAILED];
      sums[total + TOTAL_SYN] += scope == 0 ? 0 : stats[at + HostStats.SYN_SENT];
      sums[total + TOTAL_TCP] += HostStats.tcpPackets(stats, at);
      sums[total + TOTAL_ICMP] += stats[at + HostStats.ICMP_SENT];
      sums[total + TOTAL_OVERFLOW] += stats[at + HostStats.OVERFLOW];
      Best[] into = lists(scope);
      into[SYN_SENDERS].offer(stats[at + HostStats.SYN_SENT], host);
      into[SCAN_FAILURES].offer(lead, host);
      into[ICMP_SENDERS].offer(stats[at + HostStats.ICMP_SENT], host);
      into[ICMP_CAUSERS].offer(stats[at + HostStats.ICMP_RECV_UDP], host);
      into[UDP_WORK_WEIGHT].offer(HostStats.udpWorkWeight(stats, at), host);
    }

    /**
     * Hosts by distinct destinations and ports. No host has more of either than it began flows,
     * overflow records and what their sketches say added: those with most are counted first, and
     * who cannot come into a list any more is not counted.
     */
    private void scans() {
      for (int kind = 0; kind < PROTOCOLS.length; kind++) {
        long[] bounds = new long[hosts.size()];
        int candidates = 0;
        for (int host = 0; host < hosts.size(); host++) {
          long bound = stats[host * HostStats.SIZE + HostStats.BEGAN + kind] + sketched(host, kind);
          if (bound >= LEAST_SCAN) {
            bounds[candidates++] = -Math.min(bound, Integer.MAX_VALUE) << 32 | host;
          }
        }
        Arrays.sort(bounds, 0, candidates);
        for (int i = 0; i < candidates; i++) {
          int host = (int) bounds[i];
          long bound = -(bounds[i] >> 32);
          Best[] all = lists(0);
          Best[] own = flows.national() && customer(host) != 0 ? lists(customer(host)) : null;
          long ports = kind < 2 ? portBounds[2 * host + kind] : 0;
          if (mayEnter(all, kind, bound, ports)
              || (own != null && mayEnter(own, kind, bound, ports))) {
            int at = distinct(host, kind);
            long addresses = distinct.cells()[at + Sums.KEY];
            ports = distinct.cells()[at + Sums.KEY + 1];
            offer(all, kind, host, addresses, ports);
            if (own != null) {
              offer(own, kind, host, addresses, ports);
            }
          }
        }
      }
    }

    private static boolean mayEnter(Best[] lists, int kind, long addresses, long ports) {
      return addresses >= Math.max(LEAST_SCAN, lists[SCAN_ADDRESSES + kind].least())
          || (kind < 2 && ports >= Math.max(LEAST_SCAN, lists[SCAN_PORTS + kind].least()));
    }

    /** Counts a destination port: once, where it is one of the first four or new. */
    private void port(int host, int kind, long port) {
      int at = 2 * host + kind;
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

    private static void offer(Best[] lists, int kind, int host, long addresses, long ports) {
      if (addresses >= LEAST_SCAN) {
        lists[SCAN_ADDRESSES + kind].offer(addresses, host);
      }
      if (kind < 2 && ports >= LEAST_SCAN) {
        lists[SCAN_PORTS + kind].offer(ports, host);
      }
    }

    /**
     * Counts the distinct destinations and ports of the flows that a host began; where they are.
     */
    private int distinct(int host, int kind) {
      int known = distinct.find(host, kind);
      if (known >= 0) {
        return known;
      }
      peers.clear();
      dstPorts.clear();
      for (int end = hosts.first(host); end >= 0; end = hosts.next(end)) {
        flow.seek(Hosts.flow(end));
        if (Hosts.isSource(end) && kind(flow.protocol()) == kind && begins(kind)) {
          if (!flow.isOverflow()) {
            peers.at(flow.high(false), flow.low(false));
          }
          dstPorts.at(flow.port(false), 0);
        }
      }
      int at = distinct.at(host, kind);
      long estimate = sketched(host, kind);
      long[] into = distinct.cells();
      into[at + Sums.KEY] = peers.size() + estimate;
      into[at + Sums.KEY + 1] = dstPorts.size();
      into[at + Sums.KEY + 2] = error(estimate, peers.size());
      return at;
    }

    /** Three standard errors of the estimate, and what may have been counted exactly as well. */
    private static long error(long estimate, long exact) {
      return (long) Math.ceil(3 * Sketches.STANDARD_ERROR * estimate) + Math.min(estimate, exact);
    }

    private void report(int host, Sections sections) {
      peers.clear();
      dstPorts.clear();
      srcPorts.clear();
      for (int end = hosts.first(host); end >= 0; end = hosts.next(end)) {
        flow.seek(Hosts.flow(end));
        boolean source = Hosts.isSource(end);
        long sent = flow.packetsSent(source);
        if (flow.protocol() != PROTOCOLS[0] || sent == 0 || flow.isOneWay()) {
          continue;
        }
        long first = flow.firstSeen();
        if (!flow.isBack()) {
          port(dstPorts, flow.port(!source), sent, first);
        }
        if (!flow.isOverflow()) {
          peers.at(flow.high(!source), flow.low(!source));
          port(srcPorts, flow.port(source), sent, first);
        }
      }
      int at = host * HostStats.SIZE;
      long estimate = sketched(host, 0);
      sections.add(HostStats.control(stats, at));
      sections.add(hosts.high(host));
      sections.add(hosts.low(host));
      sections.add(stats, at, HostStats.SIZE);
      sections.add(peers.size() + estimate);
      sections.add(error(estimate, peers.size()));
      sections.add(dstPorts.size());
      ports(dstPorts, sections);
      ports(srcPorts, sections);
    }

    private static void port(Sums ports, int port, long packets, long first) {
      int before = ports.size();
      int at = ports.at(port, 0) + Sums.KEY;
      long[] into = ports.cells();
      into[at] += packets;
      into[at + 1] = ports.size() > before ? first : Math.min(into[at + 1], first);
    }

    /** The ports seen first, by time, then by number; in the order of their numbers. */
    private static void ports(Sums ports, Sections sections) {
      long[] from = ports.cells();
      Best best =
          new Best(
              PORTS,
              (a, b) -> from[a] < from[b]); // the earlier, the larger; of equal ones the lower port
      for (int i = 0; i < ports.size(); i++) {
        int at = i * ports.stride();
        best.offer(Integer.MAX_VALUE - from[at + Sums.KEY + 1], at);
      }
      int[] places = best.take();
      long[] rows = new long[places.length];
      for (int i = 0; i < rows.length; i++) {
        rows[i] = from[places[i]] << 44 | Math.min(from[places[i] + Sums.KEY], (1L << 44) - 1);
      }
      Arrays.sort(rows);
      for (int i = 0; i < PORTS; i++) {
        sections.add(i < rows.length ? rows[i] : -1);
      }
    }

    private void write(int scope, int[][] taken, Sections sections) {
      for (int list = SYN_SENDERS; list <= LAST_LIST; list++) {
        boolean scan = list >= SCAN_ADDRESSES && list < SCAN_FAILURES;
        int kind = !scan ? -1 : list < SCAN_PORTS ? list - SCAN_ADDRESSES : list - SCAN_PORTS;
        for (int host : taken[list]) {
          int at = host * HostStats.SIZE;
          int counted = scan ? distinct.find(host, kind) + Sums.KEY : -1;
          long addresses = scan ? distinct.cells()[counted] : 0;
          long ports = scan ? distinct.cells()[counted + 1] : 0;
          long value =
              switch (list) {
                case SYN_SENDERS -> stats[at + HostStats.SYN_SENT];
                case SCAN_FAILURES -> stats[at + HostStats.FAILED] - stats[at + HostStats.ANSWERED];
                case ICMP_SENDERS -> stats[at + HostStats.ICMP_SENT];
                case ICMP_CAUSERS -> stats[at + HostStats.ICMP_RECV_UDP];
                case UDP_WORK_WEIGHT -> HostStats.udpWorkWeight(stats, at);
                default -> list < SCAN_PORTS ? addresses : ports;
              };
          boolean byAddress = scan && list < SCAN_PORTS;
          sections.add(scope);
          sections.add(list);
          sections.add(value);
          sections.add(byAddress ? distinct.cells()[counted + 2] : 0);
          sections.add(hosts.high(host));
          sections.add(hosts.low(host));
          sections.add(stats, at, HostStats.SIZE);
          sections.add(addresses);
          sections.add(ports);
        }
      }
    }
  }
}
