package io.weir.jobs.indicators;

import static io.weir.jobs.indicators.IndicatorDigester.*;

import io.weir.jobs.sink.Table;
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
            Object[] row = row(Table.TOP_INDICATORS, (int) name[0], national);
            int stats = at + LIST_STATS;
            set(row, Table.TOP_INDICATORS, "list", name[1]);
            set(row, Table.TOP_INDICATORS, "addr", Cells.address(data, at + LIST_ADDRESS));
            set(row, Table.TOP_INDICATORS, "value", data[at + 2]);
            set(row, Table.TOP_INDICATORS, "value_error", data[at + LIST_ERROR]);
            set(row, Table.TOP_INDICATORS, "local", data[stats + HostStats.LOCAL] != 0);
            set(row, Table.TOP_INDICATORS, "syn_sent", data[stats + HostStats.SYN_SENT]);
            set(row, Table.TOP_INDICATORS, "fin_recv", data[stats + HostStats.FIN_RECV]);
            set(row, Table.TOP_INDICATORS, "rst_recv", data[stats + HostStats.RST_RECV]);
            set(row, Table.TOP_INDICATORS, "tcp_packets", HostStats.tcpPackets(data, stats));
            set(row, Table.TOP_INDICATORS, "work_weight", HostStats.workWeight(data, stats));
            set(row, Table.TOP_INDICATORS, "udp_sent", data[stats + HostStats.UDP_SENT]);
            set(row, Table.TOP_INDICATORS, "icmp_errors_sent", data[stats + HostStats.ICMP_SENT]);
            set(
                row,
                Table.TOP_INDICATORS,
                "icmp_errors_recv",
                data[stats + HostStats.ICMP_RECV_UDP]);
            set(row, Table.TOP_INDICATORS, "addresses", data[at + LIST_ADDRESSES]);
            set(row, Table.TOP_INDICATORS, "ports", data[at + LIST_PORTS]);
            set(row, Table.TOP_INDICATORS, "failed", data[stats + HostStats.FAILED]);
            set(row, Table.TOP_INDICATORS, "answered", data[stats + HostStats.ANSWERED]);
            set(row, Table.TOP_INDICATORS, "overflow_packets", data[stats + HostStats.OVERFLOW]);
            rows.add(row);
          }
          Object[] empty = row(Table.TOP_INDICATORS, (int) name[0], national);
          set(empty, Table.TOP_INDICATORS, "list", name[1]);
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
          Object[] empty = new Object[Table.PORT_REPORT.columns().size()];
          set(empty, Table.PORT_REPORT, "scope", Cells.scope(0, national));
          lists.add(new RowList(Table.PORT_REPORT, "", rows, empty));
        });
  }

  private static boolean isWhole(long[] data, int at, long[] cuts) {
    for (int cut = 0; cut < cuts.length; cut += 3) {
      if (data[at] < cuts[cut]
          || (data[at] == cuts[cut] && before(cuts, cut + 1, data, at + REPORT_ADDRESS))) {
        return false;
      }
    }
    return true;
  }

  private static boolean before(long[] a, int atA, long[] b, int atB) {
    int high = Long.compareUnsigned(a[atA], b[atB]);
    return high < 0 || (high == 0 && Long.compareUnsigned(a[atA + 1], b[atB + 1]) < 0);
  }

  private static Object[] reportRow(long[] data, int at, boolean national) {
    Table table = Table.PORT_REPORT;
    Object[] row = new Object[table.columns().size()];
    int stats = at + REPORT_STATS;
    set(row, table, "scope", Cells.scope(0, national));
    set(row, table, "addr", Cells.address(data, at + REPORT_ADDRESS));
    set(row, table, "customer", data[stats + HostStats.CUSTOMER]);
    set(row, table, "local", data[stats + HostStats.LOCAL] != 0);
    set(row, table, "syn_sent", data[stats + HostStats.SYN_SENT]);
    set(row, table, "synack_sent", data[stats + HostStats.SYNACK_SENT]);
    set(row, table, "fin_sent", data[stats + HostStats.FIN_SENT]);
    set(row, table, "rst_sent", data[stats + HostStats.RST_SENT]);
    set(row, table, "syn_recv", data[stats + HostStats.SYN_RECV]);
    set(row, table, "synack_recv", data[stats + HostStats.SYNACK_RECV]);
    set(row, table, "fin_recv", data[stats + HostStats.FIN_RECV]);
    set(row, table, "rst_recv", data[stats + HostStats.RST_RECV]);
    set(row, table, "tcp_packets", HostStats.tcpPackets(data, stats));
    set(row, table, "tcp_sent", data[stats + HostStats.TCP_SENT]);
    set(row, table, "work_weight", HostStats.workWeight(data, stats));
    set(row, table, "sa_s", HostStats.synackShare(data, stats));
    set(row, table, "l3d", data[at + REPORT_L3D]);
    set(row, table, "l3d_error", data[at + REPORT_L3D_ERROR]);
    set(row, table, "l4d", data[at + REPORT_L4D]);
    set(row, table, "icmp_errors", data[stats + HostStats.ICMP_RECV]);
    set(row, table, "flags", HostStats.flags(data, stats));
    long sent = data[stats + HostStats.TCP_SENT];
    set(row, table, "port_signature", ports(data, at + REPORT_PORTS, sent));
    set(row, table, "l4s", ports(data, at + REPORT_PORTS + PORTS, 0));
    set(row, table, "overflow_packets", data[stats + HostStats.OVERFLOW_TCP]);
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
      Object[] row = row(table, (int) scope, national);
      set(row, table, "hosts", cells[at + TOTAL_HOSTS]);
      set(row, table, "report_hosts", cells[at + TOTAL_REPORT]);
      set(row, table, "worms_us", cells[at + TOTAL_US]);
      set(row, table, "worms_them", cells[at + TOTAL_THEM]);
      set(row, table, "scanners", cells[at + TOTAL_SCANNERS]);
      set(row, table, "failed", cells[at + TOTAL_FAILED]);
      set(row, table, "syn_sent", cells[at + TOTAL_SYN]);
      set(row, table, "tcp_packets", cells[at + TOTAL_TCP]);
      set(row, table, "icmp_errors", cells[at + TOTAL_ICMP]);
      set(row, table, "overflow_packets", cells[at + TOTAL_OVERFLOW]);
      set(row, table, "one_way_packets", cells[at + TOTAL_ONE_WAY]);
      long[] heavy = heaviest.get(scope);
      if (heavy != null) {
        set(row, table, "udp_work_weight", heavy[0]);
        set(row, table, "udp_work_weight_addr", Cells.address(heavy, 1));
      }
      List<Object[]> rows = new ArrayList<>();
      rows.add(row);
      lists.add(new RowList(table, "" + scope, rows, row(table, (int) scope, national)));
    }
  }

  private static Object[] row(Table table, int scope, boolean national) {
    Object[] row = new Object[table.columns().size()];
    set(row, table, "scope", Cells.scope(scope, national));
    set(row, table, "customer", Integer.toUnsignedLong(scope));
    return row;
  }

  private static void set(Object[] row, Table table, String column, Object value) {
    row[table.index(column)] = value;
  }
}
