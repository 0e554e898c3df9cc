package io.weir.jobs.indicators;

import static io.weir.jobs.table.ColumnType.*;

import io.weir.jobs.window.WindowTable;
import java.util.List;
import java.util.stream.Collectors;

/** The table {@code indicators}: a row of sums for each window and scope. */
final class IndicatorTable {
  /**
   * Adds a row.
   *
   * @param sums the sums, from index {@code at} on
   * @param weight highest UDP work weight, null if there is none
   * @param address of the host with that weight
   */
  @SuppressWarnings("ArrayRecordComponent")
  record Row(long[] sums, int at, Long weight, byte[] address) {
    long get(Indicator indicator) {
      return sums[at + indicator.place()];
    }
  }

  static final WindowTable<Void, Row> TABLE =
      add(
              add(
                      new WindowTable<Void, Row>(6, "indicators", UINT16)
                          .comment(
                              "Sums of indicators of each window: worm counts us and them, scanners, UDP work weight; read v_indicators, which shows the newest version")
                          .customerScope(TopIndicators.SCOPE)
                          .customer("Customer for scope customer, else 0; names in prefixes")
                          .rank("Always 1")
                          .hidden()
                          .version(),
                      Indicator.ALL.subList(0, Indicator.SCANNERS.place()))
                  .column(
                      UINT64,
                      "udp_work_weight",
                      "Highest UDP work weight: UDP packets sent * ICMP errors that came back",
                      Row::weight)
                  .column(
                      IPV6,
                      "udp_work_weight_addr",
                      "The host with this udp_work_weight",
                      Row::address)
                  .shown(
                      "udp_work_weight_host",
                      "String",
                      "if(t.udp_work_weight = 0, '', weir_addr(t.udp_work_weight_addr))",
                      "The host with this udp_work_weight, empty for none")
                  .check("udp_work_weight_host"),
              Indicator.ALL.subList(Indicator.SCANNERS.place(), Indicator.ALL.size()))
          .probes()
          .view(
              "1",
              "Indicators of each window (local and remote worm counts, scanners, UDP work weight), newest version")
          .order(6, "customer", "rank")
          .declared(sql());

  private IndicatorTable() {}

  private static WindowTable<Void, Row> add(
      WindowTable<Void, Row> table, List<Indicator> indicators) {
    for (Indicator one : indicators) {
      table.column(UINT64, one.name(), one.comment(), row -> row.get(one));
    }
    return table;
  }

  private static String sql() {
    return """
SELECT h.w AS w, if(whose = 0, h.scope, 'customer') AS scope, h.probe AS probe, whose AS customer,
       max(weight) AS udp_work_weight,
       if(udp_work_weight = 0, '', weir_addr(argMin(host, (-toInt64(weight), host)))) AS udp_work_weight_host,
       %s
FROM (SELECT *, failed AS not_answered, answered AS were_answered, syn_sent AS syns, tcp_packets AS tcp,
             udp_work_weight AS weight, overflow_packets AS overflowed,
             arrayJoin(if(scope = 'all' AND customer != 0, [toUInt32(0), customer], [toUInt32(0)])) AS whose
      FROM hosts) AS h
LEFT JOIN (SELECT w, scope, probe, %s
           FROM counted WHERE scope != 'customer' GROUP BY w, scope, probe) AS o
    ON o.w = h.w AND o.scope = h.scope AND o.probe = h.probe
GROUP BY h.w, h.scope, h.probe, whose\
"""
        .formatted(
            Indicator.ALL.stream().map(Indicator::sql).collect(Collectors.joining(",\n       ")),
            Indicator.flowsSql());
  }
}
