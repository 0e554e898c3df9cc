package io.weir.jobs.window;

import java.util.Arrays;
import java.util.Collection;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiConsumer;

/** The best of every list of every scope. */
public final class BestLists {
  private final int limit;
  private final int size;
  private final Best.Order order;
  private final Map<Integer, Best[]> scopes = new TreeMap<>();

  /**
   * Makes it without any scope.
   *
   * @param limit of each list
   */
  public BestLists(int limit, Collection<? extends Listed> lists, Best.Order order) {
    this.limit = limit;
    this.order = order;
    size = lists.stream().mapToInt(Listed::id).max().orElse(0) + 1;
  }

  /** The lists of a scope, by their ids. */
  public Best[] of(int scope) {
    return scopes.computeIfAbsent(
        scope,
        key -> {
          Best[] made = new Best[size];
          Arrays.setAll(made, list -> new Best(limit, order));
          return made;
        });
  }

  /** Goes over the scopes in their order. */
  public void forEach(BiConsumer<Integer, Best[]> taker) {
    scopes.forEach(taker);
  }
}
