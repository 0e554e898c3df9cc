package io.weir.jobs.indicators;

import static io.weir.jobs.indicators.IndicatorDigester.*;

import io.weir.jobs.table.Table;
import io.weir.jobs.window.Cells;
import io.weir.jobs.window.Digest;
import io.weir.jobs.window.RowList;
import io.weir.jobs.window.RowMaker;
import io.weir.jobs.window.Sections;
import io.weir.jobs.window.Sums;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Rows of {@code port_report}, {@code top_indicators} and {@code indicators} from the digests of
 * all buckets.
 */
final class IndicatorRows implements RowMaker {
  private static final long serialVersionUID = 1;

  private final int top;
  private final int report;

  IndicatorRows(int top, int report) {
    this.top = top;
    this.report = report;
  }

  @Override
  public List<RowList> rows(Collection<Digest> digests) {
    Sums totals = new Sums(TOTAL_VALUES);
    Cells reported = new Cells(REPORT_STRIDE);
    Cells listed = new Cells(LIST_STRIDE);
    boolean national = false;
    Cells cuts = new Cells(3);
    for (Digest digest : digests) {
      national |= digest.probe().isEmpty();
      Sections.read(
          digest.data(),
          (section, data, start, end, stride) -> {
            switch (section) {
              case TOTALS -> totals.addAll(data, start, end, 1);
              case REPORT -> reported.add(data, start, end);
              case CUT -> cuts.add(data, start, end);
              default -> listed.add(data, start, end);
            }
          });
    }
    List<RowList> lists = new ArrayList<>();
    Map<Long, long[]> heaviest = new HashMap<>();
    lists(listed, national, lists, heaviest);
    report(reported, cuts.data(), national, lists);
    totals(totals, heaviest, national, lists);
    return lists;
  }

  private void lists(
      Cells listed, boolean national, List<RowList> lists, Map<Long, long[]> heaviest) {
    listed.best(
        top,
        2,
        (data, a, b) -> Cells.before(data, a + LIST_ADDRESS, b + LIST_ADDRESS, 2),
        (name, places) -> {
          long[] data = listed.data();
          List<Object[]> rows = new ArrayList<>();
          for (int at : places) {
            Object[] row = Cells.row(Table.TOP_INDICATORS, (int) name[0], national);
            int stats = at + LIST_STATS;
            Table.TOP_INDICATORS.set(row, "list", name[1]);
            Table.TOP_INDICATORS.set(row, "addr", Cells.address(data, at + LIST_ADDRESS));
            Table.TOP_INDICATORS.set(row, "value", data[at + 2]);
            Table.TOP_INDICATORS.set(row, "value_error", data[at + LIST_ERROR]);
            Table.TOP_INDICATORS.set(row, "local", data[stats + HostStats.LOCAL] != 0);
            Table.TOP_INDICATORS.set(row, "syn_sent", data[stats + HostStats.SYN_SENT]);
            Table.TOP_INDICATORS.set(row, "fin_recv", data[stats + HostStats.FIN_RECV]);
            Table.TOP_INDICATORS.set(row, "rst_recv", data[stats + HostStats.RST_RECV]);
            Table.TOP_INDICATORS.set(row, "tcp_packets", HostStats.tcpPackets(data, stats));
            Table.TOP_INDICATORS.set(row, "work_weight", HostStats.workWeight(data, stats));
            Table.TOP_INDICATORS.set(row, "udp_sent", data[stats + HostStats.UDP_SENT]);
            Table.TOP_INDICATORS.set(row, "icmp_errors_sent", data[stats + HostStats.ICMP_SENT]);
            Table.TOP_INDICATORS.set(
                row, "icmp_errors_recv", data[stats + HostStats.ICMP_RECV_UDP]);
            Table.TOP_INDICATORS.set(row, "addresses", data[at + LIST_ADDRESSES]);
            Table.TOP_INDICATORS.set(row, "ports", data[at + LIST_PORTS]);
            Table.TOP_INDICATORS.set(row, "failed", data[stats + HostStats.FAILED]);
            Table.TOP_INDICATORS.set(row, "answered", data[stats + HostStats.ANSWERED]);
            Table.TOP_INDICATORS.set(row, "overflow_packets", data[stats + HostStats.OVERFLOW]);
            rows.add(row);
          }
          Object[] empty = Cells.row(Table.TOP_INDICATORS, (int) name[0], national);
          Table.TOP_INDICATORS.set(empty, "list", name[1]);
          lists.add(new RowList(Table.TOP_INDICATORS, name[0] + "/" + name[1], rows, empty));
          if (name[1] == UDP_WORK_WEIGHT && places.length > 0) {
            int at = places[0];
            heaviest.put(
                name[0],
                new long[] {data[at + 2], data[at + LIST_ADDRESS], data[at + LIST_ADDRESS + 1]});
          }
        });
  }

  /**
   * A bucket that had more rows than it gave said which was its last: what comes behind the first
   * of those may not be all there is.
   */
  private void report(Cells reported, long[] cuts, boolean national, List<RowList> lists) {
    long[] data = reported.data();
    reported.best(
        report,
        0,
        (cells, a, b) -> Cells.before(cells, a + REPORT_ADDRESS, b + REPORT_ADDRESS, 2),
        (name, best) -> {
          List<Object[]> rows = new ArrayList<>();
          Arrays.stream(best)
              .filter(at -> isWhole(data, at, cuts))
              .boxed()
              .sorted(
                  (a, b) -> Cells.before(data, a + REPORT_ADDRESS, b + REPORT_ADDRESS, 2) ? -1 : 1)
              .forEach(at -> rows.add(reportRow(data, at, national)));
          Object[] empty = Cells.row(Table.PORT_REPORT, 0, national);
          lists.add(new RowList(Table.PORT_REPORT, "", rows, empty));
        });
  }

  private static boolean isWhole(long[] data, int at, long[] cuts) {
    for (int cut = 0; cut < cuts.length; cut += 3) {
      if (data[at] < cuts[cut]
          || (data[at] == cuts[cut] && Cells.before(cuts, cut + 1, data, at + REPORT_ADDRESS, 2))) {
        return false;
      }
    }
    return true;
  }

  private static Object[] reportRow(long[] data, int at, boolean national) {
    Table table = Table.PORT_REPORT;
    Object[] row = Cells.row(table, 0, national);
    int stats = at + REPORT_STATS;
    table.set(row, "addr", Cells.address(data, at + REPORT_ADDRESS));
    table.set(row, "customer", data[stats + HostStats.CUSTOMER]);
    table.set(row, "local", data[stats + HostStats.LOCAL] != 0);
    table.set(row, "syn_sent", data[stats + HostStats.SYN_SENT]);
    table.set(row, "synack_sent", data[stats + HostStats.SYNACK_SENT]);
    table.set(row, "fin_sent", data[stats + HostStats.FIN_SENT]);
    table.set(row, "rst_sent", data[stats + HostStats.RST_SENT]);
    table.set(row, "syn_recv", data[stats + HostStats.SYN_RECV]);
    table.set(row, "synack_recv", data[stats + HostStats.SYNACK_RECV]);
    table.set(row, "fin_recv", data[stats + HostStats.FIN_RECV]);
    table.set(row, "rst_recv", data[stats + HostStats.RST_RECV]);
    table.set(row, "tcp_packets", HostStats.tcpPackets(data, stats));
    table.set(row, "tcp_sent", data[stats + HostStats.TCP_SENT]);
    table.set(row, "work_weight", HostStats.workWeight(data, stats));
    table.set(row, "sa_s", HostStats.synackShare(data, stats));
    table.set(row, "l3d", data[at + REPORT_L3D]);
    table.set(row, "l3d_error", data[at + REPORT_L3D_ERROR]);
    table.set(row, "l4d", data[at + REPORT_L4D]);
    table.set(row, "icmp_errors", data[stats + HostStats.ICMP_RECV]);
    table.set(row, "flags", HostStats.flags(data, stats));
    long sent = data[stats + HostStats.TCP_SENT];
    table.set(row, "port_signature", ports(data, at + REPORT_PORTS, sent));
    table.set(row, "l4s", ports(data, at + REPORT_PORTS + PORTS, 0));
    table.set(row, "overflow_packets", data[stats + HostStats.OVERFLOW_TCP]);
    return row;
  }

  /**
   * Ports with their packets, or with their share of {@code all} in permille where that is not 0.
   */
  private static String ports(long[] data, int at, long all) {
    StringBuilder text = new StringBuilder();
    for (int i = at; i < at + PORTS && data[i] >= 0; i++) {
      long packets = data[i] & (1L << 44) - 1;
      text.append(text.isEmpty() ? "" : ",").append(data[i] >>> 44).append(':');
      text.append(all == 0 ? packets : 1000 * packets / all);
    }
    return text.toString();
  }

  private static void totals(
      Sums totals, Map<Long, long[]> heaviest, boolean national, List<RowList> lists) {
    Table table = Table.INDICATORS;
    long[] cells = totals.cells();
    for (int i = 0; i < totals.size(); i++) {
      int at = i * totals.stride() + Sums.KEY;
      long scope = cells[i * totals.stride()];
      Object[] row = Cells.row(table, (int) scope, national);
      table.set(row, "hosts", cells[at + TOTAL_HOSTS]);
      table.set(row, "report_hosts", cells[at + TOTAL_REPORT]);
      table.set(row, "worms_us", cells[at + TOTAL_US]);
      table.set(row, "worms_them", cells[at + TOTAL_THEM]);
      table.set(row, "scanners", cells[at + TOTAL_SCANNERS]);
      table.set(row, "failed", cells[at + TOTAL_FAILED]);
      table.set(row, "syn_sent", cells[at + TOTAL_SYN]);
      table.set(row, "tcp_packets", cells[at + TOTAL_TCP]);
      table.set(row, "icmp_errors", cells[at + TOTAL_ICMP]);
      table.set(row, "overflow_packets", cells[at + TOTAL_OVERFLOW]);
      table.set(row, "one_way_packets", cells[at + TOTAL_ONE_WAY]);
      long[] heavy = heaviest.get(scope);
      if (heavy != null) {
        table.set(row, "udp_work_weight", heavy[0]);
        table.set(row, "udp_work_weight_addr", Cells.address(heavy, 1));
      }
      List<Object[]> rows = new ArrayList<>();
      rows.add(row);
      lists.add(new RowList(table, "" + scope, rows, Cells.row(table, (int) scope, national)));
    }
  }
}
