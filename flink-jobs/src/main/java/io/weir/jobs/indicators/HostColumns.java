package io.weir.jobs.indicators;

import static io.weir.jobs.table.ColumnType.*;

import io.weir.jobs.window.WindowTable.Figure;

/** Columns of tables of hosts: what {@link HostStats} says of the host of a row. */
final class HostColumns {
  static final Figure<HostStats> LOCAL =
      new Figure<>(
          BOOL,
          "local",
          "The host is at the probe's site; over all: inside the nation",
          HostStats::isLocal);
  static final Figure<HostStats> SYN_SENT =
      count("syn_sent", "SYN packets sent by the host", HostStats.SYN_SENT);
  static final Figure<HostStats> SYNACK_SENT =
      count("synack_sent", "SYN-ACK packets sent by the host", HostStats.SYNACK_SENT);
  static final Figure<HostStats> FIN_SENT =
      count("fin_sent", "FIN packets sent by the host", HostStats.FIN_SENT);
  static final Figure<HostStats> RST_SENT =
      count("rst_sent", "RST packets sent by the host", HostStats.RST_SENT);
  static final Figure<HostStats> SYN_RECV =
      count("syn_recv", "SYN packets sent to the host", HostStats.SYN_RECV);
  static final Figure<HostStats> SYNACK_RECV =
      count("synack_recv", "SYN-ACK packets sent to the host", HostStats.SYNACK_RECV);
  static final Figure<HostStats> FIN_RECV =
      count("fin_recv", "FIN packets returned to the host", HostStats.FIN_RECV);
  static final Figure<HostStats> RST_RECV =
      count("rst_recv", "RST packets returned to the host", HostStats.RST_RECV);
  static final Figure<HostStats> TCP_PACKETS =
      new Figure<>(
          UINT64, "tcp_packets", "All TCP packets to and from the host", HostStats::tcpPackets);
  static final Figure<HostStats> TCP_SENT =
      count("tcp_sent", "TCP packets from the host", HostStats.TCP_SENT);
  static final Figure<HostStats> UDP_SENT =
      count("udp_sent", "UDP packets sent by the host", HostStats.UDP_SENT);
  static final Figure<HostStats> ICMP_ERRORS_SENT =
      count("icmp_errors_sent", "ICMP errors sent by the host", HostStats.ICMP_SENT);
  static final Figure<HostStats> ICMP_ERRORS_RECV =
      count(
          "icmp_errors_recv",
          "ICMP errors that came back to the host for its UDP packets",
          HostStats.ICMP_RECV_UDP);

  private HostColumns() {}

  private static Figure<HostStats> count(String name, String comment, int number) {
    return new Figure<>(UINT64, name, comment, host -> host.get(number));
  }
}
