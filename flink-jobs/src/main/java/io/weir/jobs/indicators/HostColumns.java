package io.weir.jobs.indicators;

import static io.weir.jobs.table.ColumnType.*;

import io.weir.jobs.window.WindowTable.Figure;
import java.util.Locale;

/** Columns of tables of hosts: the numbers that {@link HostStats} has for the host of a row. */
final class HostColumns {
  static final Figure<HostStats> LOCAL =
      new Figure<>(
          BOOL,
          "local",
          "True if the host is at the probe's site or, over all probes, inside the nation",
          HostStats::isLocal);
  static final Figure<HostStats> SYN_SENT = sent("SYN", HostStats.SYN_SENT);
  static final Figure<HostStats> SYNACK_SENT = sent("SYN-ACK", HostStats.SYNACK_SENT);
  static final Figure<HostStats> FIN_SENT = sent("FIN", HostStats.FIN_SENT);
  static final Figure<HostStats> RST_SENT = sent("RST", HostStats.RST_SENT);
  static final Figure<HostStats> SYN_RECV = received("SYN", "sent", HostStats.SYN_RECV);
  static final Figure<HostStats> SYNACK_RECV = received("SYN-ACK", "sent", HostStats.SYNACK_RECV);
  static final Figure<HostStats> FIN_RECV = received("FIN", "returned", HostStats.FIN_RECV);
  static final Figure<HostStats> RST_RECV = received("RST", "returned", HostStats.RST_RECV);
  static final Figure<HostStats> TCP_PACKETS =
      new Figure<>(
          UINT64, "tcp_packets", "All TCP packets to and from the host", HostStats::tcpPackets);
  static final Figure<HostStats> TCP_SENT =
      count("tcp_sent", "TCP packets from the host", HostStats.TCP_SENT);
  static final Figure<HostStats> UDP_SENT = sent("UDP", HostStats.UDP_SENT);
  static final Figure<HostStats> ICMP_ERRORS_SENT =
      count("icmp_errors_sent", "ICMP errors sent by the host", HostStats.ICMP_SENT);
  static final Figure<HostStats> ICMP_ERRORS_RECV =
      count(
          "icmp_errors_recv",
          "ICMP errors that came back to the host for its UDP packets",
          HostStats.ICMP_RECV_UDP);

  private HostColumns() {}

  /** Packets with these flags, or of this protocol, that the host sent. */
  private static Figure<HostStats> sent(String kind, int number) {
    return count(column(kind) + "_sent", kind + " packets sent by the host", number);
  }

  /** Packets with these flags that the host received. */
  private static Figure<HostStats> received(String flags, String how, int number) {
    return count(column(flags) + "_recv", flags + " packets " + how + " to the host", number);
  }

  private static String column(String kind) {
    return kind.replace("-", "").toLowerCase(Locale.ROOT);
  }

  private static Figure<HostStats> count(String name, String comment, int number) {
    return new Figure<>(UINT64, name, comment, host -> host.get(number));
  }
}
