package io.weir.jobs.indicators;

import static io.weir.jobs.indicators.HostColumns.*;
import static io.weir.jobs.table.ColumnType.*;

import io.weir.jobs.window.WindowTable;
import java.util.stream.Collectors;

/** The table {@code top_indicators}: the hosts of {@link HostList}s. */
final class TopIndicators {
  static final String SCOPE =
      "probe: what one probe saw. all: all probes, each flow once. customer: of these, the hosts of one customer";

  /** A row. */
  record Row(HostStats host, byte[] address, long value, long error, long addresses, long ports) {}

  static final WindowTable<Void, Row> TABLE =
      new WindowTable<Void, Row>(5, "top_indicators", UINT16)
          .comment(
              "Top SYN senders, scanners, ICMP error senders and causers, UDP work weights of each window; read v_top_indicators, which shows the newest version")
          .customerScope(SCOPE)
          .customer("Customer of a customer's list, else 0; names in prefixes")
          .listed("list", "What value counts", HostLists.ALL)
          .rank("Place in the list, from 1")
          .version()
          .column(IPV6, "addr", "Address of the host; IPv4 is mapped", Row::address)
          .shownAsHost()
          .check("weir_addr(host)")
          .column(UINT64, "value", "What puts the list in order", Row::value)
          .column(UINT64, "value_error", "value may be off by this much, 0: exact", Row::error)
          .columns(Row::host, LOCAL, SYN_SENT, FIN_RECV, RST_RECV, TCP_PACKETS)
          .column(
              UINT16,
              "work_weight",
              "100 * (syn_sent + fin_sent + rst_recv) / tcp_packets",
              row -> row.host.workWeight())
          .columns(Row::host, UDP_SENT, ICMP_ERRORS_SENT, ICMP_ERRORS_RECV)
          .column(
              UINT32,
              "addresses",
              "scan lists: distinct destinations that the host began flows to, of the list's protocol",
              Row::addresses)
          .column(
              UINT32, "ports", "scan lists: distinct destination ports of those flows", Row::ports)
          .column(
              UINT32,
              "failed",
              "Destinations none of whose SYNs was answered in time, judged in this window",
              row -> get(row, HostStats.FAILED))
          .column(
              UINT32,
              "answered",
              "Destinations that answered a SYN, judged in this window. Four failures more than answers call a scanner (Jung and others, 2004)",
              row -> get(row, HostStats.ANSWERED))
          .column(
              UINT64,
              "overflow_packets",
              "Packets of the host that came in overflow records",
              row -> get(row, HostStats.OVERFLOW))
          .probes()
          .viewed(
              "scanner",
              "Bool",
              "t.failed >= t.answered + " + Indicators.SCANNER,
              "At least four more first contacts failed than were answered")
          .view(
              "t.value > 0",
              "Top SYN senders, scanners, ICMP error senders and causers, UDP work weights: the newest version of each list")
          .order(7, "customer", "list", "rank")
          .step("values", values())
          .declared(sql());

  private TopIndicators() {}

  private static long get(Row row, int number) {
    return row.host.get(number);
  }

  private static String values() {
    return HostLists.ALL.stream()
        .map(HostList::valuesSql)
        .collect(Collectors.joining("\nUNION ALL\n"));
  }

  private static String sql() {
    return """
        SELECT w, if(whose = 0, scope, 'customer') AS scope, probe, whose AS customer, list,
               row_number() OVER (PARTITION BY w, v.scope, probe, whose, list ORDER BY value DESC, host) AS rank,
               host, value, error AS value_error, local, syn_sent, fin_recv, rst_recv, tcp_packets, work_weight, udp_sent,
               icmp_sent AS icmp_errors_sent, icmp_recv_udp AS icmp_errors_recv, addresses, ports, failed, answered,
               overflow_packets
        FROM values AS v
        INNER JOIN (SELECT *, arrayJoin(if(scope = 'all' AND customer != 0, [toUInt32(0), customer], [toUInt32(0)])) AS whose
                    FROM hosts) AS h USING (w, scope, probe, host)
        WHERE value > 0
        QUALIFY rank <= {top}""";
  }
}
