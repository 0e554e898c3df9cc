package io.weir.jobs.indicators;

import static io.weir.jobs.indicators.HostColumns.*;
import static io.weir.jobs.table.ColumnType.*;

import io.weir.jobs.window.WindowTable;
import java.util.stream.Collectors;

/** The table {@code top_indicators}: the hosts of {@link HostList}s. */
final class TopIndicators {
  static final String SCOPE =
      "probe: traffic that one probe saw. all: all probes, each flow once. customer: hosts of one customer, over all probes, each flow once";

  /** A row. */
  record Row(HostStats host, byte[] address, long value, long error, long addresses, long ports) {}

  static final WindowTable<Void, Row> TABLE =
      new WindowTable<Void, Row>(5, "top_indicators", UINT16)
          .comment(
              "Top SYN senders, scanners, ICMP error senders and causers, UDP work weights of each window; read v_top_indicators, which shows the newest version")
          .customerScope(SCOPE)
          .customer("Customer if the list is a customer's, else 0; names in prefixes")
          .listed("list", "Meaning of value", HostLists.ALL)
          .rank("Rank in the list, from 1")
          .version()
          .column(IPV6, "addr", "Address of the host; IPv4 is mapped", Row::address)
          .unchecked() // the check of host compares the same address
          .shownAsHost()
          .check("weir_addr(host)")
          .column(UINT64, "value", "Value by which the list is sorted", Row::value)
          .column(UINT64, "value_error", "Error bound of value, 0: exact", Row::error)
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
              "Scan lists: distinct destinations to which the host began flows of the list's protocol",
              Row::addresses)
          .column(
              UINT32,
              "ports",
              "Scan lists: distinct destination ports of the flows of the list's protocol that the host began",
              Row::ports)
          .column(
              UINT32,
              "failed",
              "Destinations that answered none of the host's SYNs in time, judged in this window",
              row -> get(row, HostStats.FAILED))
          .column(
              UINT32,
              "answered",
              "Destinations that answered a SYN of the host, judged in this window. A host with at least four more failures than answers is a scanner (Jung and others, 2004)",
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
