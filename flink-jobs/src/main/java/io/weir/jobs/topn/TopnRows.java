package io.weir.jobs.topn;

import io.weir.jobs.table.Table;
import io.weir.jobs.window.Best;
import io.weir.jobs.window.Cells;
import io.weir.jobs.window.Digest;
import io.weir.jobs.window.FlowCursor;
import io.weir.jobs.window.RowList;
import io.weir.jobs.window.RowMaker;
import io.weir.jobs.window.Sections;
import io.weir.jobs.window.Sums;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Rows of {@code top_flows} and {@code top_talkers} from the digests of all buckets. */
final class TopnRows implements RowMaker {
  private static final long serialVersionUID = 1;

  /** Values of {@code list} in {@code top_talkers}. */
  static final int HOST_IN = 1;

  static final int HOST_OUT = 2;

  /** The list of the first kind of key; the others follow in their order. */
  static final int FIRST_KEY = 3;

  private final int top;

  TopnRows(int top) {
    this.top = top;
  }

  @Override
  public List<RowList> rows(Collection<Digest> digests) {
    Sums totals = new Sums(TopnDigester.TOTAL_VALUES);
    Sums keys = new Sums(TopnDigester.VALUES);
    Map<Integer, Cells> sections = new TreeMap<>();
    boolean national = false;
    long[] error = {0};
    for (Digest digest : digests) {
      national |= digest.probe().isEmpty();
      Sections.read(
          digest.data(),
          (section, data, start, end, stride) -> {
            switch (section) {
              case TopnDigester.TOTALS -> totals.addAll(data, start, end, 1);
              case TopnDigester.KEYS -> keys.addAll(data, start, end, 1);
              case TopnDigester.ERROR -> error[0] = Math.max(error[0], data[start]);
              default ->
                  sections.computeIfAbsent(section, key -> new Cells(stride)).add(data, start, end);
            }
          });
    }
    List<RowList> lists = new ArrayList<>();
    flows(sections.get(TopnDigester.FLOWS), totals, national, lists);
    hosts(sections.get(TopnDigester.HOSTS), totals, national, lists);
    keys(keys, totals, national, lists);
    for (RowList list : lists) {
      Table table = list.table();
      list.rows().forEach(row -> table.set(row, "error_octets", error[0]));
    }
    return lists;
  }

  private void flows(Cells flows, Sums totals, boolean national, List<RowList> lists) {
    flows.best(
        top,
        2,
        (data, a, b) -> Cells.before(data, a + TopnDigester.FLOW_KEY, b + TopnDigester.FLOW_KEY, 5),
        (group, places) -> {
          long[] data = flows.data();
          int scope = (int) group[0];
          FlowCursor flow = FlowCursor.of(data);
          List<Object[]> rows = new ArrayList<>();
          for (int at : places) {
            flow.place(at + TopnDigester.FLOW_KEY);
            Object[] row = flowRow(scope, national, (int) group[1] + 1, totals);
            Table.TOP_FLOWS.set(row, "src_addr", flow.address(true));
            Table.TOP_FLOWS.set(row, "dst_addr", flow.address(false));
            Table.TOP_FLOWS.set(row, "src_port", flow.port(true));
            Table.TOP_FLOWS.set(row, "dst_port", flow.port(false));
            Table.TOP_FLOWS.set(row, "protocol", flow.protocol());
            Table.TOP_FLOWS.set(row, "octets", flow.octets());
            Table.TOP_FLOWS.set(row, "packets", flow.packets());
            Table.TOP_FLOWS.set(row, "fwd_octets", flow.octetsForward());
            Table.TOP_FLOWS.set(row, "fwd_packets", flow.packetsForward());
            Table.TOP_FLOWS.set(row, "rev_octets", flow.octetsReverse());
            Table.TOP_FLOWS.set(row, "rev_packets", flow.packetsReverse());
            rows.add(row);
          }
          lists.add(
              new RowList(
                  Table.TOP_FLOWS,
                  group[0] + "/" + group[1],
                  rows,
                  flowRow(scope, national, (int) group[1] + 1, totals)));
        });
  }

  private static Object[] flowRow(int scope, boolean national, int list, Sums totals) {
    Object[] row = row(Table.TOP_FLOWS, scope, national, list);
    int at = totals.at(scope, 0) + Sums.KEY;
    long[] sums = totals.cells();
    Table.TOP_FLOWS.set(row, "window_octets", sums[at + TopnDigester.TOTAL_OCTETS]);
    Table.TOP_FLOWS.set(row, "window_packets", sums[at + TopnDigester.TOTAL_PACKETS]);
    Table.TOP_FLOWS.set(row, "window_flows", sums[at + TopnDigester.TOTAL_FLOWS]);
    Table.TOP_FLOWS.set(row, "overflow_octets", sums[at + TopnDigester.TOTAL_OVERFLOW]);
    Table.TOP_FLOWS.set(row, "duplicate_octets", sums[at + TopnDigester.TOTAL_DUPLICATE]);
    return row;
  }

  private void hosts(Cells hosts, Sums totals, boolean national, List<RowList> lists) {
    hosts.best(
        top,
        2,
        (data, a, b) -> Cells.before(data, a + TopnDigester.HOST_KEY, b + TopnDigester.HOST_KEY, 2),
        (group, places) -> {
          long[] data = hosts.data();
          int scope = (int) group[0];
          int list = HOST_IN + (int) group[1];
          long all = totals.get(scope, 0, TopnDigester.TOTAL_HOSTS);
          List<Object[]> rows = new ArrayList<>();
          for (int at : places) {
            Object[] row = talker(scope, national, list, all, totals);
            Table.TOP_TALKERS.set(row, "addr", Cells.address(data, at + TopnDigester.HOST_KEY));
            sums(row, data, at + TopnDigester.HOST_KEY + 2);
            rows.add(row);
          }
          lists.add(
              new RowList(
                  Table.TOP_TALKERS,
                  scope + "/" + list,
                  rows,
                  talker(scope, national, list, all, totals)));
        });
  }

  private void keys(Sums keys, Sums totals, boolean national, List<RowList> lists) {
    long[] cells = keys.cells();
    Map<Long, Best> best = new TreeMap<>();
    Map<Long, Long> counts = new TreeMap<>();
    for (int i = 0; i < keys.size(); i++) {
      int at = i * keys.stride();
      counts.merge(cells[at], 1L, Long::sum);
      best.computeIfAbsent(cells[at], key -> new Best(top, (a, b) -> cells[a + 1] < cells[b + 1]))
          .offer(
              cells[at + Sums.KEY + TopnDigester.IN_OCTETS]
                  + cells[at + Sums.KEY + TopnDigester.OUT_OCTETS],
              at);
    }
    best.forEach(
        (group, places) -> {
          int scope = (int) (group >>> 8);
          int list = FIRST_KEY + (int) (group & 0xff);
          List<Object[]> rows = new ArrayList<>();
          for (int at : places.take()) {
            Object[] row = talker(scope, national, list, counts.get(group), totals);
            Table.TOP_TALKERS.set(row, "number", cells[at + 1]);
            sums(row, cells, at + Sums.KEY);
            rows.add(row);
          }
          lists.add(
              new RowList(
                  Table.TOP_TALKERS,
                  scope + "/" + list,
                  rows,
                  talker(scope, national, list, counts.get(group), totals)));
        });
  }

  private static Object[] talker(int scope, boolean national, int list, long keys, Sums totals) {
    Object[] row = row(Table.TOP_TALKERS, scope, national, list);
    int at = totals.at(scope, 0) + Sums.KEY;
    long[] sums = totals.cells();
    Table.TOP_TALKERS.set(row, "window_octets", sums[at + TopnDigester.TOTAL_OCTETS]);
    Table.TOP_TALKERS.set(row, "window_packets", sums[at + TopnDigester.TOTAL_PACKETS]);
    Table.TOP_TALKERS.set(row, "window_overflow_octets", sums[at + TopnDigester.TOTAL_OVERFLOW]);
    Table.TOP_TALKERS.set(row, "window_keys", keys);
    return row;
  }

  private static void sums(Object[] row, long[] data, int at) {
    long inOctets = data[at + TopnDigester.IN_OCTETS];
    long outOctets = data[at + TopnDigester.OUT_OCTETS];
    long inPackets = data[at + TopnDigester.IN_PACKETS];
    long outPackets = data[at + TopnDigester.OUT_PACKETS];
    Table.TOP_TALKERS.set(row, "octets", inOctets + outOctets);
    Table.TOP_TALKERS.set(row, "packets", inPackets + outPackets);
    Table.TOP_TALKERS.set(row, "in_octets", inOctets);
    Table.TOP_TALKERS.set(row, "in_packets", inPackets);
    Table.TOP_TALKERS.set(row, "out_octets", outOctets);
    Table.TOP_TALKERS.set(row, "out_packets", outPackets);
    Table.TOP_TALKERS.set(row, "flows", data[at + TopnDigester.COUNT]);
    Table.TOP_TALKERS.set(row, "overflow_octets", data[at + TopnDigester.OVERFLOW]);
  }

  private static Object[] row(Table table, int scope, boolean national, int list) {
    Object[] row = Cells.row(table, scope, national);
    table.set(row, "list", list);
    return row;
  }
}
