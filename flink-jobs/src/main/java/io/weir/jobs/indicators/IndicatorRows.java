package io.weir.jobs.indicators;

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
 *
 * @param top rows of a list
 * @param report rows of the port report
 */
record IndicatorRows(int top, int report) implements RowMaker {
  /** The first row of the list of UDP work weights. */
  private record Heaviest(long weight, byte[] address) {}

  @Override
  public List<RowList> rows(Collection<Digest> digests) {
    Sums totals = new Sums(Indicator.ALL.size());
    Cells reported = new Cells(PortReport.STRIDE);
    Cells listed = new Cells(IndicatorDigester.LIST_STRIDE);
    boolean national = false;
    Cells cuts = new Cells(3);
    for (Digest digest : digests) {
      national |= digest.probe().isEmpty();
      Sections.read(
          digest.data(),
          (section, data, start, end, stride) -> {
            switch (section) {
              case IndicatorDigester.TOTALS -> totals.addAll(data, start, end, 1);
              case IndicatorDigester.REPORT -> reported.add(data, start, end);
              case IndicatorDigester.CUT -> cuts.add(data, start, end);
              default -> listed.add(data, start, end);
            }
          });
    }
    List<RowList> lists = new ArrayList<>();
    Map<Long, Heaviest> heaviest = new HashMap<>();
    lists(listed, national, lists, heaviest);
    report(reported, cuts.data(), national, lists);
    totals(totals, heaviest, national, lists);
    return lists;
  }

  private void lists(
      Cells listed, boolean national, List<RowList> lists, Map<Long, Heaviest> heaviest) {
    listed.best(
        top,
        IndicatorDigester.LIST_ADDRESS,
        2,
        (name, places) -> {
          long[] data = listed.data();
          Object[] empty = TopIndicators.TABLE.row((int) name[0], national, null);
          TopIndicators.TABLE.table().set(empty, "list", name[1]);
          List<Object[]> rows = new ArrayList<>();
          HostStats host = new HostStats(data);
          for (int at : places) {
            rows.add(
                TopIndicators.TABLE.row(
                    empty,
                    new TopIndicators.Row(
                        host.place(at + IndicatorDigester.LIST_STATS),
                        Cells.address(data, at + IndicatorDigester.LIST_ADDRESS),
                        data[at + 2],
                        data[at + IndicatorDigester.LIST_ERROR],
                        data[at + IndicatorDigester.LIST_ADDRESSES],
                        data[at + IndicatorDigester.LIST_PORTS])));
          }
          lists.add(new RowList(TopIndicators.TABLE.table(), name[0] + "/" + name[1], rows, empty));
          if (name[1] == HostLists.UDP_WORK_WEIGHT.id() && places.length > 0) {
            byte[] address = Cells.address(data, places[0] + IndicatorDigester.LIST_ADDRESS);
            heaviest.put(name[0], new Heaviest(data[places[0] + 2], address));
          }
        });
  }

  /**
   * A bucket that left rows out states the last row that it sent: beyond the first such row the
   * report may be incomplete.
   */
  private void report(Cells reported, long[] cuts, boolean national, List<RowList> lists) {
    long[] data = reported.data();
    reported.best(
        report,
        0,
        (cells, a, b) -> byAddress(cells, a, b),
        (name, best) -> {
          Object[] empty = PortReport.TABLE.row(0, national, null);
          List<Object[]> rows = new ArrayList<>();
          Arrays.stream(best)
              .filter(at -> isWhole(data, at, cuts))
              .boxed()
              .sorted((a, b) -> byAddress(data, a, b) ? -1 : 1)
              .forEach(at -> rows.add(PortReport.TABLE.row(empty, PortReport.Row.of(data, at))));
          lists.add(new RowList(PortReport.TABLE.table(), "", rows, empty));
        });
  }

  private static boolean byAddress(long[] data, int a, int b) {
    return Cells.before(data, a + PortReport.ADDRESS, b + PortReport.ADDRESS, 2);
  }

  private static boolean isWhole(long[] data, int at, long[] cuts) {
    for (int cut = 0; cut < cuts.length; cut += 3) {
      if (data[at] < cuts[cut]
          || (data[at] == cuts[cut]
              && Cells.before(cuts, cut + 1, data, at + PortReport.ADDRESS, 2))) {
        return false;
      }
    }
    return true;
  }

  private static void totals(
      Sums totals, Map<Long, Heaviest> heaviest, boolean national, List<RowList> lists) {
    long[] cells = totals.cells();
    for (int i = 0; i < totals.size(); i++) {
      int at = i * totals.stride();
      long scope = cells[at];
      Heaviest heavy = heaviest.get(scope);
      Object[] empty = IndicatorTable.TABLE.row((int) scope, national, null);
      IndicatorTable.Row row =
          new IndicatorTable.Row(
              cells,
              at + Sums.KEY,
              heavy == null ? null : heavy.weight,
              heavy == null ? null : heavy.address);
      List<Object[]> rows = new ArrayList<>();
      rows.add(IndicatorTable.TABLE.row(empty, row));
      lists.add(new RowList(IndicatorTable.TABLE.table(), "" + scope, rows, empty));
    }
  }
}
