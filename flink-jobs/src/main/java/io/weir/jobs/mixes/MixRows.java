package io.weir.jobs.mixes;

import io.weir.jobs.table.Table;
import io.weir.jobs.window.Best;
import io.weir.jobs.window.Cells;
import io.weir.jobs.window.Digest;
import io.weir.jobs.window.RowList;
import io.weir.jobs.window.RowMaker;
import io.weir.jobs.window.Sums;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Rows of {@code mixes}: the largest of each dimension and direction, and the remainder. */
final class MixRows implements RowMaker {
  private static final long serialVersionUID = 1;

  /** Countries are all shown: there are fewer. */
  private static final int COUNTRIES = 300;

  private final int applications;
  private final int systems;

  MixRows(int applications, int systems) {
    this.applications = applications;
    this.systems = systems;
  }

  @Override
  public List<RowList> rows(Collection<Digest> digests) {
    Sums sums = new Sums(MixDigester.VALUES);
    boolean national = false;
    for (Digest digest : digests) {
      national |= digest.probe().isEmpty();
      sums.addAll(digest.data(), 0, digest.data().length, 1);
    }
    long[] cells = sums.cells();
    Map<Long, List<Integer>> groups = new TreeMap<>();
    for (int i = 0; i < sums.size(); i++) {
      int at = i * sums.stride();
      // What another probe's observation has replaced leaves zeros behind.
      if (packets(cells, at) != 0 || octets(cells, at) != 0) {
        groups.computeIfAbsent(cells[at], key -> new ArrayList<>()).add(at);
      }
    }
    List<RowList> lists = new ArrayList<>();
    for (Map.Entry<Long, List<Integer>> group : groups.entrySet()) {
      int total = sums.find((group.getKey() & ~0xff00L) | MixDigester.TOTAL << 8, 0);
      lists.add(list(group.getKey(), group.getValue(), cells, total, national));
    }
    return lists;
  }

  private RowList list(long key, List<Integer> places, long[] cells, int total, boolean national) {
    int dimension = (int) (key >>> 8) & 0xff;
    int limit =
        switch (dimension) {
          case MixDigester.AS -> systems;
          case MixDigester.COUNTRY -> COUNTRIES;
          default -> applications;
        };
    Best best = new Best(limit, (a, b) -> cells[a + 1] < cells[b + 1]);
    for (int at : places) {
      best.offer(Math.max(1, octets(cells, at)), at);
    }
    long[] rest = new long[MixDigester.VALUES];
    for (int at : places) {
      for (int i = 0; i < rest.length; i++) {
        rest[i] += cells[at + Sums.KEY + i];
      }
    }
    List<Object[]> rows = new ArrayList<>();
    int shown = 0;
    for (int at : best.take()) {
      Object[] row = row(key, cells, total, national);
      set(row, "number", cells[at + 1]);
      values(row, cells, at + Sums.KEY);
      rows.add(row);
      shown++;
      for (int i = 0; i < rest.length; i++) {
        rest[i] -= cells[at + Sums.KEY + i];
      }
    }
    if (shown < places.size()) {
      Object[] row = row(key, cells, total, national);
      set(row, "remainder", true);
      values(row, rest, 0);
      rows.add(row);
    }
    return new RowList(Table.MIXES, Long.toString(key), rows, row(key, cells, total, national));
  }

  private static Object[] row(long key, long[] cells, int total, boolean national) {
    Object[] row = Cells.row(Table.MIXES, (int) (key >>> 16), national);
    set(row, "dimension", key >>> 8 & 0xff);
    set(row, "direction", key & 0xff);
    int at = total + Sums.KEY;
    set(row, "direction_octets", octets(cells, total));
    set(row, "direction_packets", packets(cells, total));
    set(row, "direction_flows", cells[at + 2] + cells[at + MixDigester.IPV6 + 2]);
    return row;
  }

  private static void values(Object[] row, long[] cells, int at) {
    int six = at + MixDigester.IPV6;
    set(row, "octets", cells[at] + cells[six]);
    set(row, "packets", cells[at + 1] + cells[six + 1]);
    set(row, "flows", cells[at + 2] + cells[six + 2]);
    set(row, "ipv4_octets", cells[at]);
    set(row, "ipv4_packets", cells[at + 1]);
    set(row, "ipv4_flows", cells[at + 2]);
    set(row, "ipv6_octets", cells[six]);
    set(row, "ipv6_packets", cells[six + 1]);
    set(row, "ipv6_flows", cells[six + 2]);
    set(row, "overflow_octets", cells[at + MixDigester.OVERFLOW]);
  }

  private static long octets(long[] cells, int entry) {
    return cells[entry + Sums.KEY] + cells[entry + Sums.KEY + MixDigester.IPV6];
  }

  private static long packets(long[] cells, int entry) {
    return cells[entry + Sums.KEY + 1] + cells[entry + Sums.KEY + MixDigester.IPV6 + 1];
  }

  private static void set(Object[] row, String column, Object value) {
    Table.MIXES.set(row, column, value);
  }
}
