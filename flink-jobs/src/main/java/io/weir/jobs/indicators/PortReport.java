package io.weir.jobs.indicators;

import static io.weir.jobs.indicators.HostColumns.*;
import static io.weir.jobs.table.ColumnType.*;

import io.weir.jobs.window.Best;
import io.weir.jobs.window.Cells;
import io.weir.jobs.window.FlowCursor;
import io.weir.jobs.window.Flows;
import io.weir.jobs.window.Hosts;
import io.weir.jobs.window.Sections;
import io.weir.jobs.window.Sums;
import io.weir.jobs.window.WindowTable;
import java.util.Arrays;

/**
 * Ourmon's TCP port report (Binkley and Massey, "Ourmon and network monitoring performance", 2005):
 * the table {@code port_report}, and the data on a host that a bucket contributes to it.
 */
final class PortReport {
  /**
   * Layout of a digest's row: order, address, stats, l3d, its error, l4d, ports with their share,
   * ...
   */
  static final int ADDRESS = 1;

  static final int STATS = 3;
  private static final int L3D = STATS + HostStats.SIZE;
  private static final int L3D_ERROR = L3D + 1;
  private static final int L4D = L3D + 2;
  private static final int SHOWN_PORTS = L3D + 3;
  private static final int PORTS = 10;
  static final int STRIDE = SHOWN_PORTS + 2 * PORTS;

  private static final int PACKET_BITS = 44;
  private static final long PACKETS = (1L << PACKET_BITS) - 1;

  /** A row of the table, from a row of a digest. */
  @SuppressWarnings("ArrayRecordComponent")
  record Row(long[] data, int at, HostStats host) {
    static Row of(long[] data, int at) {
      return new Row(data, at, new HostStats(data).place(at + STATS));
    }

    long get(int number) {
      return host.get(number);
    }

    long own(int number) {
      return data[at + number];
    }

    /**
     * Ports with their packets, or, if {@code all} is not 0, with their share of it in permille.
     */
    String ports(int from, long all) {
      StringBuilder text = new StringBuilder();
      for (int i = at + from; i < at + from + PORTS && data[i] >= 0; i++) {
        long packets = data[i] & PortReport.PACKETS;
        text.append(text.isEmpty() ? "" : ",").append(data[i] >>> PACKET_BITS).append(':');
        text.append(all == 0 ? packets : 1000 * packets / all);
      }
      return text.toString();
    }
  }

  static final WindowTable<Void, Row> TABLE =
      new WindowTable<Void, Row>(4, "port_report", UINT16)
          .comment(
              "TCP port report: hosts with a work weight above 0, those with the highest if there are too many; read v_port_report, which shows the newest version")
          .scope("probe: traffic that one probe saw. all: all probes, each flow once")
          .rank("Rank by address, from 1, so that neighbouring addresses are adjacent")
          .version()
          .column(
              IPV6,
              "addr",
              "Address of the host; IPv4 is mapped",
              row -> Cells.address(row.data, row.at + ADDRESS))
          .unchecked() // the check of host compares the same address
          .shownAsHost()
          .check("weir_addr(host)")
          .column(
              UINT32,
              "customer",
              "Customer of the host, 0 for none; names in prefixes",
              row -> row.get(HostStats.CUSTOMER))
          .shownAsCustomer("Customer of the host, by number; 0 none")
          .columns(
              Row::host,
              LOCAL,
              SYN_SENT,
              SYNACK_SENT,
              FIN_SENT,
              RST_SENT,
              SYN_RECV,
              SYNACK_RECV,
              FIN_RECV,
              RST_RECV,
              TCP_PACKETS,
              TCP_SENT)
          .column(
              UINT16,
              "work_weight",
              "100 * (syn_sent + fin_sent + rst_recv) / tcp_packets: 100 means control packets without data; peer-to-peer hosts are at 30 or less",
              row -> row.host.workWeight())
          .column(
              UINT16,
              "sa_s",
              "100 * synack_sent / (syn_recv + syn_sent): near 100 for a server, 0 for a client, in between for a peer-to-peer host",
              row -> row.host.synackShare())
          .column(
              UINT32,
              "l3d",
              "Distinct addresses that the host sent TCP packets to",
              row -> row.own(L3D))
          .column(
              UINT32,
              "l4d",
              "Distinct TCP ports that the host sent packets to",
              row -> row.own(L4D))
          .column(
              UINT64,
              "icmp_errors",
              "ICMP errors sent to the host",
              row -> row.get(HostStats.ICMP_RECV))
          .column(
              STRING,
              "flags",
              "E: ICMP errors come back. W: work weight of 90 or more; w: of 50 or more. O: no FIN returned. R: RSTs returned. M: fewer data packets returned than SYNs sent",
              row -> row.host.flags())
          .column(
              STRING,
              "port_signature",
              "The first 10 destination ports of the host's packets, ascending, each with its share of the packets in permille: 445:500,139:500. Hosts with the same signature take part in the same scan",
              row -> row.ports(SHOWN_PORTS, row.get(HostStats.TCP_SENT)))
          .column(
              STRING,
              "l4s",
              "The first 10 source ports of the host's packets, with the number of packets: 1025:3,1026:1",
              row -> row.ports(SHOWN_PORTS + PORTS, 0))
          .column(
              UINT64,
              "overflow_packets",
              "The part of tcp_packets that came in overflow records",
              row -> row.get(HostStats.OVERFLOW_TCP))
          .column(
              UINT32,
              "l3d_error",
              "Error bound of l3d, 0: exact. Overflow records estimate distinct addresses by a sketch: the bound is three standard errors, plus the addresses that may be counted twice",
              row -> row.own(L3D_ERROR))
          .probes()
          .view(
              "t.tcp_packets > 0",
              "TCP port report: hosts with a work weight above 0 in ascending order of addresses; the newest version")
          .order(5, "rank")
          .step(
              "tcp_sent",
              """
              SELECT w, scope, probe, host, peer, okey, own_port, peer_port, packets_sent AS packets, first
              FROM ends WHERE protocol = 6 AND NOT one_way AND packets_sent > 0 AND scope != 'customer'""")
          .step(
              "reached",
              """
              SELECT w, scope, probe, host, uniqExactIf(peer, okey = 0) AS peers, uniqExact(peer_port) AS l4d
              FROM tcp_sent GROUP BY w, scope, probe, host""")
          .step("peer_ports", portsSql("peer_port", "1"))
          .step("own_ports", portsSql("own_port", "okey = 0"))
          .declared(sql());

  private final Hosts hosts;
  private final HostCounts counts;
  private final Scans scans;
  private final FlowCursor flow;
  private final Sums peers = new Sums(0);
  private final Sums dstPorts = new Sums(2);
  private final Sums srcPorts = new Sums(2);

  /** Begins the report of a bucket. */
  PortReport(Flows flows, HostCounts counts, Scans scans) {
    this.counts = counts;
    this.scans = scans;
    hosts = flows.hosts();
    flow = flows.cursor();
  }

  /** Appends the row of a host. */
  void add(int host, Sections sections) {
    peers.clear();
    dstPorts.clear();
    srcPorts.clear();
    for (int end = hosts.first(host); end >= 0; end = hosts.next(end)) {
      flow.seek(Hosts.flow(end));
      boolean source = Hosts.isSource(end);
      long sent = flow.packetsSent(source);
      if (Kind.of(flow.protocol()) != Kind.TCP || sent == 0 || flow.isOneWay()) {
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
    long estimate = scans.sketched(host, Kind.TCP);
    sections.add(counts.of(host).reportOrder());
    sections.add(hosts.high(host));
    sections.add(hosts.low(host));
    counts.addTo(sections, host);
    sections.add(peers.size() + estimate);
    sections.add(Scans.error(estimate, peers.size()));
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

  /** The ports seen first (by time, then by number), in ascending order. */
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
      rows[i] = from[places[i]] << PACKET_BITS | Math.min(from[places[i] + Sums.KEY], PACKETS);
    }
    Arrays.sort(rows);
    for (int i = 0; i < PORTS; i++) {
      sections.add(i < rows.length ? rows[i] : -1);
    }
  }

  private static String portsSql(String port, String where) {
    return """
        SELECT w, scope, probe, host,
               arraySlice(arraySort(p -> (p.2, p.1), groupArray((port, seen, packets))), 1, %d) AS ports
        FROM (SELECT w, scope, probe, host, %s AS port, min(first) AS seen, sum(packets) AS packets
              FROM tcp_sent WHERE %s GROUP BY w, scope, probe, host, port) GROUP BY w, scope, probe, host"""
        .formatted(PORTS, port, where);
  }

  private static String sql() {
    return """
        SELECT h.w AS w, h.scope AS scope, h.probe AS probe,
               row_number() OVER (PARTITION BY w, scope, probe ORDER BY host) AS rank,
               h.host AS host, customer, local, syn_sent, synack_sent, fin_sent, rst_sent,
               syn_recv, synack_recv, fin_recv, rst_recv, tcp_packets, tcp_sent, work_weight, sa_s,
               peers + estimate AS l3d, l4d, icmp_recv AS icmp_errors,
               concat(if(icmp_recv > 0, 'E', ''), multiIf(work_weight >= 90, 'W', work_weight >= 50, 'w', ''),
                      if(fin_recv = 0, 'O', ''), if(rst_recv > 0, 'R', ''),
                      if(toInt64(tcp_recv) - toInt64(syn_recv + synack_recv + fin_recv + rst_recv) < toInt64(syn_sent),
                         'M', '')) AS flags,
               arrayStringConcat(arrayMap(p -> concat(toString(p.1), ':', toString(intDiv(1000 * p.3, tcp_sent))),
                                          arraySort(p.ports)), ',') AS port_signature,
               arrayStringConcat(arrayMap(p -> concat(toString(p.1), ':', toString(p.3)), arraySort(o.ports)), ',')
                   AS l4s,
               overflow_tcp_packets AS overflow_packets,
               toUInt64(ceil(3 * 1.04 / sqrt(128) * estimate)) + least(estimate, peers) AS l3d_error
        FROM (SELECT *, row_number() OVER (PARTITION BY w, scope, probe
                                           ORDER BY work_weight DESC, control DESC, host) AS place FROM hosts
              WHERE work_weight > 0 QUALIFY place <= {report}) AS h
        LEFT JOIN reached AS r ON r.w = h.w AND r.scope = h.scope AND r.probe = h.probe AND r.host = h.host
        LEFT JOIN peer_ports AS p ON p.w = h.w AND p.scope = h.scope AND p.probe = h.probe AND p.host = h.host
        LEFT JOIN own_ports AS o ON o.w = h.w AND o.scope = h.scope AND o.probe = h.probe AND o.host = h.host
        LEFT JOIN (SELECT * FROM sketches WHERE kind = 'tcp') AS s
            ON s.w = h.w AND s.scope = h.scope AND s.probe = h.probe AND s.host = h.host""";
  }
}
