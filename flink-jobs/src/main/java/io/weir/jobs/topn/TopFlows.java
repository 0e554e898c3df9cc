package io.weir.jobs.topn;

import static io.weir.jobs.table.ColumnType.*;

import io.weir.jobs.window.FlowCursor;
import io.weir.jobs.window.WindowTable;
import java.util.stream.Collectors;

/** The table {@code top_flows}. */
final class TopFlows {
  /** A row: the flow, and its error bound. */
  record Row(FlowCursor flow, long error) {}

  static final WindowTable<WindowSums, Row> TABLE =
      new WindowTable<WindowSums, Row>(1, "top_flows", UINT16)
          .comment(
              "Top flows by octets for each window, per probe and over all; read v_top_flows, which shows the newest version")
          .customerScope(
              "probe: the list of one probe. all: the list over all probes, each flow once. customer: the list of one customer, over all probes, each flow once",
              "Name of the probe, empty for all")
          .customer("Customer if the list is a customer's, else 0; names in prefixes")
          .listed(
              "list",
              "Flows in the list (ip: all protocols), and the value by which it is sorted",
              FlowList.ALL)
          .rank("Rank in the list, from 1")
          .version()
          .viewed(
              "protocol_name",
              "String",
              "weir_protocol_name(t.protocol)",
              "Name of the protocol, such as TCP, UDP or ICMPv6, or its number if its name is unknown")
          .check("weir_protocol_name(protocol)")
          .viewed("src", "String", "weir_addr(t.src_addr)", "Address of the source, IPv4 as IPv4")
          .check("weir_addr(src_addr)")
          .viewed("src_port", "UInt16", "t.src_port", "Port of the source")
          .check("src_port")
          .viewed(
              "dst", "String", "weir_addr(t.dst_addr)", "Address of the destination, IPv4 as IPv4")
          .check("weir_addr(dst_addr)")
          .column(
              IPV6,
              "src_addr",
              "Address of the source; IPv4 is mapped",
              row -> row.flow.address(true))
          .column(
              IPV6,
              "dst_addr",
              "Address of the destination; IPv4 is mapped",
              row -> row.flow.address(false))
          .column(UINT16, "src_port", "Port of the source", row -> row.flow.port(true))
          .hidden()
          .column(
              UINT16,
              "dst_port",
              "Port of the destination; for ICMP its type * 256 + code",
              row -> row.flow.port(false))
          .column(UINT8, "protocol", "IP protocol number", row -> row.flow.protocol())
          .hidden()
          .volume(
              "",
              "of the flow in the window, both directions",
              row -> row.flow.octets(),
              row -> row.flow.packets())
          .volume(
              "fwd_",
              "from source to destination",
              row -> row.flow.octetsForward(),
              row -> row.flow.packetsForward())
          .volume(
              "rev_",
              "from destination to source",
              row -> row.flow.octetsReverse(),
              row -> row.flow.packetsReverse())
          .whole(
              UINT64,
              "window_octets",
              "Layer-3 octets of all flows in the window, of which octets is a part",
              WindowSums::octets)
          .said("Layer-3 octets of all flows in the window")
          .whole(
              UINT64, "window_packets", "Packets of all flows in the window", WindowSums::packets)
          .whole(UINT64, "window_flows", "Distinct flows in the window", WindowSums::flows)
          .whole(
              UINT64,
              "overflow_octets",
              "The part of window_octets that came in overflow records and therefore cannot be in a list",
              WindowSums::overflowOctets)
          .whole(
              UINT64,
              "duplicate_octets",
              "Lists over all probes: octets left out because another probe's observation of the same flow counts",
              WindowSums::duplicateOctets)
          .column(
              UINT64,
              "error_octets",
              "Upper bound of the octets that a listed flow may have in addition, and of the octets of a flow that is missing from the list, because windows had more flows than they keep (--window-flows). 0: exact",
              Row::error)
          .unchecked()
          .viewed(
              "share",
              "Float64",
              "t.octets / greatest(t.window_octets, 1)",
              "Share of window_octets that the flow has, 0 to 1")
          .probes()
          .view(
              "t.packets > 0",
              "Top flows of each window, per probe, per customer and over all: the newest version of each list")
          .order(5, "rank", "customer", "list")
          .declared(sql());

  private TopFlows() {}

  private static String sql() {
    return """
        SELECT c.w AS w, c.scope AS scope, c.probe AS probe, c.customer AS customer, list,
               row_number() OVER (PARTITION BY w, scope, probe, customer, list
                                  ORDER BY value DESC, src_addr, dst_addr, src_port, dst_port, protocol) AS rank,
               src_addr, dst_addr, src_port, dst_port, protocol,
               fwd_octets + rev_octets AS octets, fwd_packets + rev_packets AS packets,
               fwd_octets, fwd_packets, rev_octets, rev_packets,
               window_octets, window_packets, window_flows, overflow_octets, duplicate_octets
        FROM (SELECT *, tupleElement(part, 1) AS list, tupleElement(part, 2) AS value FROM counted
              ARRAY JOIN arrayFilter(p -> tupleElement(p, 3) = 1, [%s]) AS part
              WHERE okey = 0 AND value > 0) AS c
        INNER JOIN totals AS t
            ON t.w = c.w AND t.scope = c.scope AND t.probe = c.probe AND t.customer = c.customer
        QUALIFY rank <= {top}"""
        .formatted(FlowList.ALL.stream().map(FlowList::sql).collect(Collectors.joining(", ")));
  }
}
