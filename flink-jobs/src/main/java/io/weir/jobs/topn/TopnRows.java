package io.weir.jobs.topn;

import io.weir.jobs.window.Best;
import io.weir.jobs.window.Cells;
import io.weir.jobs.window.Digest;
import io.weir.jobs.window.FlowCursor;
import io.weir.jobs.window.RowList;
import io.weir.jobs.window.RowMaker;
import io.weir.jobs.window.Sections;
import io.weir.jobs.window.Sums;
import io.weir.jobs.window.WindowTable;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.IntFunction;

/** Rows of {@code top_flows} and {@code top_talkers} from the digests of all buckets. */
record TopnRows(int top) implements RowMaker {
  @Override
  public List<RowList> rows(Collection<Digest> digests) {
    Sums totals = new Sums(TopnDigester.TOTAL_VALUES);
    Sums keys = new Sums(TopnDigester.VALUES);
    Map<Integer, Cells> sections = new TreeMap<>();
    boolean[] national = {false};
    long[] error = {0};
    for (Digest digest : digests) {
      national[0] |= digest.probe().isEmpty();
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
    Work work = new Work(totals, national[0], error[0]);
    work.flows(sections.get(TopnDigester.FLOWS));
    work.hosts(sections.get(TopnDigester.HOSTS));
    work.keys(keys);
    return work.lists;
  }

  /** The lists of one window. */
  private final class Work {
    private final Sums totals;
    private final boolean national;
    private final long error;
    private final List<RowList> lists = new ArrayList<>();

    Work(Sums totals, boolean national, long error) {
      this.totals = totals;
      this.national = national;
      this.error = error;
    }

    void flows(Cells flows) {
      flows.best(
          top,
          TopnDigester.FLOW_KEY,
          5,
          (group, places) -> {
            int scope = (int) group[0];
            TopFlows.Row row = new TopFlows.Row(FlowCursor.of(flows.data()), error);
            list(
                TopFlows.TABLE,
                group[0] + "/" + group[1],
                scope,
                (int) group[1] + TopnDigester.FIRST_LIST,
                WindowSums.of(totals, scope, 0),
                places,
                at -> {
                  row.flow().place(at + TopnDigester.FLOW_KEY);
                  return row;
                });
          });
    }

    void hosts(Cells hosts) {
      hosts.best(
          top,
          TopnDigester.HOST_KEY,
          2,
          (group, places) -> {
            long[] data = hosts.data();
            int scope = (int) group[0];
            int list = (int) group[1] + TopnDigester.FIRST_LIST;
            list(
                TopTalkers.TABLE,
                scope + "/" + list,
                scope,
                list,
                WindowSums.of(totals, scope, totals.get(scope, 0, TopnDigester.TOTAL_HOSTS)),
                places,
                at ->
                    new TopTalkers.Row(
                        Cells.address(data, at + TopnDigester.HOST_KEY),
                        null,
                        data,
                        at + TopnDigester.HOST_KEY + 2,
                        error));
          });
    }

    void keys(Sums keys) {
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
            int list = (int) (group & 0xff) + TopnDigester.FIRST_KEY;
            list(
                TopTalkers.TABLE,
                scope + "/" + list,
                scope,
                list,
                WindowSums.of(totals, scope, counts.get(group)),
                places.take(),
                at -> new TopTalkers.Row(null, cells[at + 1], cells, at + Sums.KEY, error));
          });
    }

    private <T> void list(
        WindowTable<WindowSums, T> table,
        String name,
        int scope,
        int list,
        WindowSums sums,
        int[] places,
        IntFunction<T> at) {
      Object[] empty = table.row(scope, national, sums);
      table.table().set(empty, "list", list);
      List<Object[]> rows = new ArrayList<>();
      for (int place : places) {
        rows.add(table.row(empty, at.apply(place)));
      }
      lists.add(new RowList(table.table(), name, rows, empty));
    }
  }
}
