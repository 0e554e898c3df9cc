package io.weir.jobs.topn;

import static io.weir.jobs.table.ColumnType.*;

import io.weir.jobs.window.WindowTable;
import java.util.List;
import java.util.stream.Collectors;

/** The table {@code top_talkers}. */
final class TopTalkers {
  /** In plain SQL: the columns that identify a flow, and the sums over ends of flows. */
  static final String FLOW = "tuple(src_addr, dst_addr, src_port, dst_port, protocol) AS flow";

  static final String SUMS =
      """
      sum(octets_received) AS in_octets, sum(packets_received) AS in_packets,
                 sum(octets_sent) AS out_octets, sum(packets_sent) AS out_packets,
                 uniqExactIf(flow, okey = 0) AS flows, sumIf(octets_sent + octets_received, okey != 0) AS overflow_octets""";

  /**
   * A row.
   *
   * @param address of a host, else null
   * @param number of anything else, else null
   * @param place in the list
   * @param sums where they begin at {@code at}
   */
  @SuppressWarnings("ArrayRecordComponent")
  record Row(byte[] address, Long number, Top.Place place, long[] sums, int at, long error) {
    /** One of the sums, in the order of {@link TopnDigester#IN_OCTETS} and those after it. */
    long get(int value) {
      return sums[at + value];
    }

    long octets() {
      return get(TopnDigester.IN_OCTETS) + get(TopnDigester.OUT_OCTETS);
    }

    long packets() {
      return get(TopnDigester.IN_PACKETS) + get(TopnDigester.OUT_PACKETS);
    }
  }

  static final WindowTable<WindowSums, Row> TABLE =
      new WindowTable<WindowSums, Row>(2, "top_talkers", UINT16)
          .comment(
              "Top hosts, ports, AS and customers of each window, per probe, per customer and over all; read v_top_talkers, which shows the newest version")
          .customerScope(
              "probe: traffic that one probe saw. all: all probes, each flow once. customer: traffic of one customer, over all probes, each flow once")
          .customer("Customer if the list is a customer's, else 0; names in prefixes")
          .listed("list", "", TalkerLists.all())
          .rank(
              "Rank by octets among the rows of the list, from 1: these are the largest by octets, by packets and by flows, each once")
          .version()
          .column(
              UINT16,
              "packets_rank",
              "Rank by packets, from 1; 0 if others have more",
              row -> row.place.packetsRank())
          .column(
              UINT16,
              "flows_rank",
              "Rank by flows, from 1; 0 if others have more",
              row -> row.place.flowsRank())
          .column(IPV6, "addr", "Address of the host; IPv4 is mapped", Row::address)
          .viewed(
              "host",
              "String",
              "if(t.list IN (%s), weir_addr(t.addr), '')".formatted(hosts()),
              "Address of the host, IPv4 as IPv4; empty for other lists")
          .check("if(list IN (%s), weir_addr(addr), '')".formatted(hosts()))
          .column(UINT32, "number", "Port, AS number or customer", Row::number)
          .viewed(
              "name",
              "String",
              names(TalkerLists.KEYS),
              "Name of the port's service, of the AS or of the customer")
          .volume("", "in and out", Row::octets, Row::packets)
          .numbers(
              Row::get,
              "in_octets",
              "Layer-3 octets received; for a port, sent to it",
              "in_packets",
              "Packets received",
              "out_octets",
              "Layer-3 octets sent; for a port, sent from it",
              "out_packets",
              "Packets sent",
              "flows",
              "Distinct flows",
              "overflow_octets",
              "The part of octets that came in overflow records")
          .whole(
              UINT64,
              "window_octets",
              "Layer-3 octets of the whole window and scope",
              WindowSums::octets)
          .whole(
              UINT64,
              "window_packets",
              "Packets of the whole window and scope",
              WindowSums::packets)
          .whole(
              UINT64,
              "window_keys",
              "Number of distinct hosts, ports, AS or customers in the window",
              WindowSums::keys)
          .whole(
              UINT64,
              "window_overflow_octets",
              "The part of window_octets that came in overflow records, some of which name no host, port or AS",
              WindowSums::overflowOctets)
          .column(
              UINT64,
              "error_octets",
              "0: exact. Above 0: windows had more flows than they keep (--window-flows); overflow_octets then counts the aggregated traffic, and a host or port that is missing from the list had no flow with more octets than this",
              Row::error)
          .unchecked()
          .probes()
          .view(
              "t.packets > 0",
              "Top hosts, ports, AS and customers of each window, per probe, per customer and over all: the newest version of each list")
          .order(7, "customer", "list", "rank")
          .step("talkers", talkers())
          .declared(sql());

  private TopTalkers() {}

  private static String hosts() {
    return TalkerLists.HOSTS.stream()
        .map(list -> "'" + list.name() + "'")
        .collect(Collectors.joining(", "));
  }

  private static String names(List<TalkerList.ByKey> lists) {
    return lists.stream()
        .map(list -> "t.list = '%s', %s".formatted(list.name(), list.nameSql()))
        .collect(Collectors.joining(", ", "multiIf(", ", '')"));
  }

  private static String talkers() {
    String ofHosts =
        """
        SELECT w, scope, probe, toUInt32(0) AS of_customer, 'host' AS what, host AS addr, toUInt64(0) AS number,
               max(host_customer) AS whose, %s
        FROM (SELECT *, %s FROM ends WHERE scope != 'customer') GROUP BY w, scope, probe, host"""
            .formatted(SUMS, FLOW);
    return ofHosts
        + TalkerLists.KEYS.stream()
            .map(list -> "\nUNION ALL\n" + list.sql())
            .collect(Collectors.joining());
  }

  /** The value by which each list is sorted, in octets or packets. */
  private static String values(String unit) {
    return TalkerLists.all().stream()
        .map(list -> "list = '%s', %s, ".formatted(list.name(), list.sideSql(unit)))
        .collect(Collectors.joining("", "multiIf(", "0)"));
  }

  private static String place(String value) {
    return "row_number() OVER (PARTITION BY w, scope, probe, customer, list ORDER BY %s DESC, addr, number)"
        .formatted(value);
  }

  private static String sql() {
    return """
        SELECT c.w AS w, c.scope AS scope, c.probe AS probe, c.customer AS customer, list, %s AS rank,
               if(by_packets > 0 AND packets_place <= {top}, packets_place, 0) AS packets_rank,
               if(by_flows > 0 AND flows_place <= {top}, flows_place, 0) AS flows_rank,
               addr, number, in_octets + out_octets AS octets, in_packets + out_packets AS packets,
               in_octets, in_packets, out_octets, out_packets, flows, c.overflow_octets AS overflow_octets,
               window_octets, window_packets, window_keys, t.overflow_octets AS window_overflow_octets
        FROM (SELECT *, %s AS octets_place, %s AS packets_place, %s AS flows_place,
                     count() OVER (PARTITION BY w, scope, probe, customer, list) AS window_keys
              FROM (SELECT *, %s AS by_octets, %s AS by_packets, if(by_packets > 0, flows, 0) AS by_flows
                    FROM (SELECT * REPLACE (if(what = 'host' AND whom != 0, 'customer', scope) AS scope),
                                 if(what = 'host', whom, of_customer) AS customer
                          FROM (SELECT *, arrayJoin(if(what = 'host' AND scope = 'all' AND whose != 0, [toUInt32(0), whose], [toUInt32(0)])) AS whom,
                                       arrayJoin(if(what = 'host', [%s], [what])) AS list FROM talkers)))) AS c
        INNER JOIN totals AS t
            ON t.w = c.w AND t.scope = c.scope AND t.probe = c.probe AND t.customer = c.customer
        WHERE (by_octets > 0 AND octets_place <= {top}) OR packets_rank > 0 OR flows_rank > 0"""
        .formatted(
            place("by_octets"),
            place("by_octets"),
            place("by_packets"),
            place("by_flows"),
            values("octets"),
            values("packets"),
            hosts());
  }
}
