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
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.Stream;

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
                Arrays.stream(places)
                    .mapToObj(
                        at -> {
                          row.flow().place(at + TopnDigester.FLOW_KEY);
                          return row;
                        }));
          });
    }

    void hosts(Cells hosts) {
      long[] data = hosts.data();
      Map<Long, Top> tops = new TreeMap<>();
      for (int at = 0; at < data.length; at += TopnDigester.HOST_SUMS + TopnDigester.VALUES) {
        long group = data[at] << 8 | (data[at + 1] + TopnDigester.FIRST_LIST);
        top(
                tops,
                group,
                (a, b) ->
                    Cells.before(data, a + TopnDigester.HOST_KEY, b + TopnDigester.HOST_KEY, 2),
                data,
                TopnDigester.HOST_SUMS)
            .offer(at);
      }
      tops.forEach(
          (group, places) ->
              talkers(
                  group,
                  totals.get(group >>> 8, 0, TopnDigester.TOTAL_HOSTS),
                  places,
                  place ->
                      new TopTalkers.Row(
                          Cells.address(data, place.item() + TopnDigester.HOST_KEY),
                          null,
                          place,
                          data,
                          place.item() + TopnDigester.HOST_SUMS,
                          error)));
    }

    void keys(Sums keys) {
      long[] cells = keys.cells();
      Map<Long, Top> tops = new TreeMap<>();
      Map<Long, Long> counts = new TreeMap<>();
      for (int i = 0; i < keys.size(); i++) {
        int at = i * keys.stride();
        long group = cells[at] + TopnDigester.FIRST_KEY;
        counts.merge(group, 1L, Long::sum);
        top(tops, group, (a, b) -> cells[a + 1] < cells[b + 1], cells, Sums.KEY).offer(at);
      }
      tops.forEach(
          (group, places) ->
              talkers(
                  group,
                  counts.get(group),
                  places,
                  place ->
                      new TopTalkers.Row(
                          null,
                          cells[place.item() + 1],
                          place,
                          cells,
                          place.item() + Sums.KEY,
                          error)));
    }

    /**
     * A list of talkers.
     *
     * @param group the scope, and in the lowest octet the list
     * @param offset of an entry's sums from its beginning in {@code data}
     */
    private Top top(Map<Long, Top> tops, long group, Best.Order order, long[] data, int offset) {
      return tops.computeIfAbsent(
          group,
          key -> new Top(TalkerLists.of((int) group & 0xff), top, order, data, at -> at + offset));
    }

    private void talkers(
        long group, long keys, Top places, Function<Top.Place, TopTalkers.Row> row) {
      int scope = (int) (group >>> 8);
      int list = (int) group & 0xff;
      list(
          TopTalkers.TABLE,
          scope + "/" + list,
          scope,
          list,
          WindowSums.of(totals, scope, keys),
          places.take().stream().map(row));
    }

    private <T> void list(
        WindowTable<WindowSums, T> table,
        String name,
        int scope,
        int list,
        WindowSums sums,
        Stream<T> things) {
      Object[] empty = table.row(scope, national, sums);
      table.table().set(empty, "list", list);
      List<Object[]> rows = new ArrayList<>();
      things.forEach(thing -> rows.add(table.row(empty, thing)));
      lists.add(new RowList(table.table(), name, rows, empty));
    }
  }
}
