package io.weir.jobs.topn;

import io.weir.jobs.window.Best;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.IntUnaryOperator;

/**
 * The entries of one list of talkers: the largest by octets, by packets and by flows, each entry
 * once.
 */
final class Top {
  private static final TalkerList.By[] ORDERS = TalkerList.By.values();

  /**
   * An entry, and its ranks by packets and by flows: 0 if it is not among the largest by these.
   *
   * @param item number under which it was offered
   */
  record Place(int item, int packetsRank, int flowsRank) {}

  private final TalkerList list;
  private final Best.Order order;
  private final long[] sums;
  private final IntUnaryOperator at;
  private final Best[] best = new Best[ORDERS.length];

  /**
   * Creates an empty list.
   *
   * @param limit of entries by each of the values
   * @param order of entries of the same value
   * @param at where the sums of an entry begin in {@code sums}
   */
  Top(TalkerList list, int limit, Best.Order order, long[] sums, IntUnaryOperator at) {
    this.list = list;
    this.order = order;
    this.sums = sums;
    this.at = at;
    Arrays.setAll(best, by -> new Best(limit, order));
  }

  /** Offers an entry. */
  void offer(int item) {
    int place = at.applyAsInt(item);
    for (TalkerList.By by : ORDERS) {
      best[by.ordinal()].offer(list.value(by, sums, place), item);
    }
  }

  /** The entries, the largest by octets first. Empties the list. */
  List<Place> take() {
    Map<Integer, int[]> ranks = new TreeMap<>();
    for (TalkerList.By by : ORDERS) {
      int[] items = best[by.ordinal()].take();
      for (int i = 0; i < items.length; i++) {
        ranks.computeIfAbsent(items[i], key -> new int[ORDERS.length])[by.ordinal()] = i + 1;
      }
    }
    Best sorted = new Best(ranks.size(), order);
    for (int item : ranks.keySet()) {
      sorted.offer(1 + list.value(TalkerList.By.OCTETS, sums, at.applyAsInt(item)), item);
    }
    List<Place> places = new ArrayList<>();
    for (int item : sorted.take()) {
      int[] rank = ranks.get(item);
      places.add(
          new Place(
              item, rank[TalkerList.By.PACKETS.ordinal()], rank[TalkerList.By.FLOWS.ordinal()]));
    }
    return places;
  }
}
