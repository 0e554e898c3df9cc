package io.weir.jobs.mixes;

import io.weir.jobs.window.Best;
import io.weir.jobs.window.Digest;
import io.weir.jobs.window.RowList;
import io.weir.jobs.window.RowMaker;
import io.weir.jobs.window.Sums;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Rows of {@code mixes}: the largest values of each dimension and direction, and the remainder.
 *
 * @param applications number of rows of a mix other than of AS alone
 * @param systems number of rows of a mix of AS
 */
record MixRows(int applications, int systems) implements RowMaker {
  @Override
  public List<RowList> rows(Collection<Digest> digests) {
    Sums sums = new Sums(MixDigester.VALUES);
    boolean national = false;
    for (Digest digest : digests) {
      national |= digest.probe().isEmpty();
      long[] data = digest.data();
      sums.addAll(data, 0, data.length, 1);
    }
    long[] cells = sums.cells();
    Map<Long, List<Integer>> groups = new TreeMap<>();
    for (int i = 0; i < sums.size(); i++) {
      int at = i * sums.stride();
      // Where another probe's observation has replaced all counts, zeros remain.
      if (packets(cells, at) != 0 || octets(cells, at) != 0) {
        groups.computeIfAbsent(cells[at], key -> new ArrayList<>()).add(at);
      }
    }
    List<RowList> lists = new ArrayList<>();
    for (Map.Entry<Long, List<Integer>> group : groups.entrySet()) {
      int total = sums.find((group.getKey() & ~0xff00L) | Dimension.TOTAL.id() << 8, 0);
      lists.add(list(group.getKey(), group.getValue(), cells, total, national));
    }
    return lists;
  }

  private RowList list(long key, List<Integer> places, long[] cells, int total, boolean national) {
    Dimension dimension = Dimension.of((int) (key >>> 8) & 0xff);
    int limit = dimension.shown().most(applications, systems);
    Best best = new Best(limit, (a, b) -> cells[a + 1] < cells[b + 1]);
    for (int at : places) {
      best.offer(Math.max(1, octets(cells, at)), at);
    }
    // The part of the total that no row has, so that they add up to it even if a window began
    // before the version of the jobs that introduced the dimension.
    int whole = total + Sums.KEY;
    long[] rest = Arrays.copyOfRange(cells, whole, whole + MixDigester.VALUES);
    Object[] empty = MixTable.TABLE.row((int) (key >>> 16), national, whole(cells, total));
    MixTable.TABLE.table().set(empty, "dimension", dimension.id());
    MixTable.TABLE.table().set(empty, "direction", key & 0xff);
    List<Object[]> rows = new ArrayList<>();
    for (int at : best.take()) {
      rows.add(MixTable.TABLE.row(empty, MixTable.Row.of(dimension, cells, at)));
      for (int i = 0; i < rest.length; i++) {
        rest[i] -= cells[at + Sums.KEY + i];
      }
    }
    MixTable.Row remainder = MixTable.Row.ofRemainder(rest);
    if (remainder.both(MixDigester.OCTETS) != 0 || remainder.both(MixDigester.PACKETS) != 0) {
      rows.add(MixTable.TABLE.row(empty, remainder));
    }
    return new RowList(MixTable.TABLE.table(), Long.toString(key), rows, empty);
  }

  private static MixTable.Whole whole(long[] cells, int total) {
    int at = total + Sums.KEY;
    return new MixTable.Whole(
        octets(cells, total),
        packets(cells, total),
        cells[at + 2] + cells[at + MixDigester.IPV6 + 2]);
  }

  private static long octets(long[] cells, int entry) {
    return cells[entry + Sums.KEY] + cells[entry + Sums.KEY + MixDigester.IPV6];
  }

  private static long packets(long[] cells, int entry) {
    return cells[entry + Sums.KEY + 1] + cells[entry + Sums.KEY + MixDigester.IPV6 + 1];
  }
}
