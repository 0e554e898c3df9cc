package io.weir.jobs.indicators;

import io.weir.jobs.window.FlowCursor;

/** A list sorted by a count of its own: each end of each flow adds to the count of its host. */
abstract class CountedList extends HostList {
  private int place;

  CountedList(int id, String name, String comment, String source) {
    super(id, name, comment, source);
  }

  /** The amount that one end of a flow adds to its host's count. */
  abstract long count(FlowCursor flow, boolean source);

  /**
   * The same in plain SQL, an aggregate over the ends of one host: {@code packets_sent}, {@code
   * packets_received} and so on, {@code protocol}, {@code is_source}, {@code okey} (0: a flow),
   * {@code one_way}.
   */
  abstract String countSql();

  @Override
  final long value(HostStats host) {
    return host.get(place);
  }

  @Override
  final String sql() {
    return name();
  }

  /** Offset of the count in a row of {@link HostStats}. */
  final int place() {
    return place;
  }

  final void put(int at) {
    place = at;
  }
}
