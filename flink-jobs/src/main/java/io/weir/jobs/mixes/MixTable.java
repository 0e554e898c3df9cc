package io.weir.jobs.mixes;

import static io.weir.jobs.table.ColumnType.*;

import io.weir.jobs.message.Direction;
import io.weir.jobs.window.Sums;
import io.weir.jobs.window.WindowTable;
import java.util.stream.Collectors;

/** The table {@code mixes}. */
final class MixTable {
  /** The totals of a direction. */
  record Whole(long octets, long packets, long flows) {}

  /**
   * A row.
   *
   * @param number null for the remainder
   * @param application null for the remainder
   * @param remainder null for other rows
   * @param sums where they begin at {@code at}
   */
  @SuppressWarnings("ArrayRecordComponent")
  record Row(Long number, Long application, Boolean remainder, long[] sums, int at) {
    /** The row of the entry of {@link Sums} that begins at {@code at}. */
    static Row of(Dimension dimension, long[] cells, int at) {
      long value = cells[at + 1];
      return new Row(
          dimension.number(value), dimension.application(value), null, cells, at + Sums.KEY);
    }

    /** The row of all values without a row of their own. */
    static Row ofRemainder(long[] sums) {
      return new Row(null, null, true, sums, 0);
    }

    /** One of the sums, in the order of {@link MixDigester}'s. */
    long get(int value) {
      return sums[at + value];
    }

    /** The sum of both IP versions. */
    long both(int value) {
      return get(value) + get(MixDigester.IPV6 + value);
    }
  }

  static final WindowTable<Whole, Row> TABLE =
      new WindowTable<Whole, Row>(3, "mixes", UINT32)
          .comment(
              "Totals, and shares of applications, AS, countries, customers, and AS with application, of each window, per probe, per customer and over all; read v_mixes, which shows the newest version")
          .customerScope(
              "probe: traffic that one probe saw; inside is its site. all: all probes, each flow once; inside is the nation. customer: traffic of one customer, over all probes, each flow once; inside is the customer")
          .customer("Customer for scope customer, else 0; names in prefixes")
          .listed("dimension", "Dimension of the row", Dimension.ALL)
          .listed(
              "direction",
              "Direction of the packets: in is from outside to inside. unknown: no prefix is declared as inside",
              Direction.values())
          .rank("Rank by octets, from 1; the remainder comes last")
          .version()
          .column(
              UINT32,
              "number",
              "Application, AS, country (first letter * 256 + second) or customer; 0 unknown or none",
              Row::number)
          .viewed(
              "name",
              "String",
              names(),
              "Name of the application, AS, country or customer; in the last two rows of a mix, the meaning of the row")
          .column(
              UINT16,
              "application",
              "Dimension as_application: the application of the pair, whose AS is number; 0 unknown. 0 in all other dimensions",
              Row::application)
          .shown(
              "application_id",
              "UInt16",
              "if(t.dimension = 'application', toUInt16(t.number), t.application)",
              "Dimension application: the application; as_application: that of the pair, whose AS is number; 0 unknown. 0 in all other dimensions")
          .check("if(dimension = 'application', toUInt16(number), application)")
          .viewed(
              "application",
              "String",
              "multiIf(t.dimension NOT IN ('application', 'as_application') OR t.remainder, '', application_id = 0, 'unknown', dictGet('application_names', 'name', application_id))",
              "Dimensions application and as_application: name of the application; empty in all other dimensions and for the rest")
          .column(
              BOOL,
              "remainder",
              "True for the row that sums all values without a row of their own",
              Row::remainder)
          .numbers(
              Row::both,
              "octets",
              "Layer-3 octets",
              "packets",
              "Packets",
              "flows",
              "Flows that began in the window: in and out each count those that had packets in this direction in the 30 seconds in which they began, the other directions count each once; summed over windows, they give all flows of the direction")
          .numbers(
              Row::get,
              "ipv4_octets",
              "IPv4 part of octets",
              "ipv4_packets",
              "IPv4 part of packets",
              "ipv4_flows",
              "IPv4 part of flows",
              "ipv6_octets",
              "IPv6 part of octets",
              "ipv6_packets",
              "IPv6 part of packets",
              "ipv6_flows",
              "IPv6 part of flows",
              "overflow_octets",
              "The part of octets that came in overflow records")
          .whole(
              UINT64,
              "direction_octets",
              "Layer-3 octets of the window, scope and direction, of which octets is a part",
              Whole::octets)
          .whole(
              UINT64,
              "direction_packets",
              "Packets of the window, scope and direction",
              Whole::packets)
          .whole(
              UINT64, "direction_flows", "Flows of the window, scope and direction", Whole::flows)
          .probes()
          .viewed(
              "share",
              "Float64",
              "t.octets / greatest(t.direction_octets, 1)",
              "Part of direction_octets, 0 to 1")
          .view(
              "t.packets > 0",
              "Totals, and shares of applications, AS, countries, customers, and AS with application, of each window: the newest version")
          .order(8, "customer", "dimension", "direction", "rank")
          .step("shares", shares())
          .declared(sql());

  private MixTable() {}

  private static String names() {
    return Dimension.ALL.stream()
        .filter(dimension -> dimension != Dimension.TOTAL)
        .map(
            dimension ->
                "t.dimension = '%s', %s, ".formatted(dimension.name(), dimension.nameSql()))
        .collect(
            Collectors.joining(
                "",
                "multiIf(t.remainder, 'the rest', t.dimension = 'total', %s, t.number = 0, 'unknown', "
                    .formatted(Dimension.TOTAL.nameSql()),
                "'')"));
  }

  private static String shares() {
    String parts =
        Dimension.ALL.stream()
            .map(
                dimension ->
                    "('%s', %s, %s)"
                        .formatted(
                            dimension.name(), dimension.numberSql(), dimension.applicationSql()))
            .collect(Collectors.joining(", "));
    return """
        SELECT w, scope, probe, customer, part.1 AS dimension, direction, toUInt32(part.2) AS number,
               part.3 AS of_application, sumIf(octets, NOT ipv6) AS ipv4_octets, sumIf(packets, NOT ipv6) AS ipv4_packets,
               sumIf(began, NOT ipv6) AS ipv4_flows, sumIf(octets, ipv6) AS ipv6_octets,
               sumIf(packets, ipv6) AS ipv6_packets, sumIf(began, ipv6) AS ipv6_flows,
               sumIf(octets, okey != 0) AS overflow_octets
        FROM ways
        ARRAY JOIN [%s] AS part
        GROUP BY w, scope, probe, customer, dimension, direction, number, of_application"""
        .formatted(parts);
  }

  private static String sql() {
    String most =
        Dimension.ALL.stream()
            .map(
                dimension ->
                    "dimension = '%s', %s, ".formatted(dimension.name(), dimension.shown().sql))
            .collect(Collectors.joining("", "multiIf(", "0)"));
    return """
        SELECT w, scope, probe, customer, dimension, direction, rank, number, application, remainder,
               ipv4_octets + ipv6_octets AS octets, ipv4_packets + ipv6_packets AS packets,
               ipv4_flows + ipv6_flows AS flows, ipv4_octets, ipv4_packets, ipv4_flows, ipv6_octets, ipv6_packets,
               ipv6_flows, overflow_octets, direction_octets, direction_packets, direction_flows
        FROM (SELECT w, scope, probe, customer, dimension, direction, least(place, most + 1) AS rank,
                     if(rank > most, 0, any(number)) AS number, if(rank > most, 0, any(of_application)) AS application,
                     rank > most AS remainder,
                     sum(overflow_octets) AS overflow_octets,
                     sum(ipv4_octets) AS ipv4_octets, sum(ipv4_packets) AS ipv4_packets, sum(ipv4_flows) AS ipv4_flows,
                     sum(ipv6_octets) AS ipv6_octets, sum(ipv6_packets) AS ipv6_packets, sum(ipv6_flows) AS ipv6_flows
              FROM (SELECT *, %s AS most,
                           row_number() OVER (PARTITION BY w, scope, probe, customer, dimension, direction
                                              ORDER BY ipv4_octets + ipv6_octets DESC, number, of_application) AS place FROM shares)
              GROUP BY w, scope, probe, customer, dimension, direction, rank, most) AS s
        INNER JOIN (SELECT w, scope, probe, customer, direction, ipv4_octets + ipv6_octets AS direction_octets,
                           ipv4_packets + ipv6_packets AS direction_packets, ipv4_flows + ipv6_flows AS direction_flows
                    FROM shares WHERE dimension = 'total') AS t USING (w, scope, probe, customer, direction)"""
        .formatted(most);
  }
}
