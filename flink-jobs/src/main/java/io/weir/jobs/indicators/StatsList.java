package io.weir.jobs.indicators;

import java.util.function.ToLongFunction;

/** A list sorted by a count that every host has. */
final class StatsList extends HostList {
  private final ToLongFunction<HostStats> value;
  private final String sql;

  /**
   * Declares a list.
   *
   * @param value by which hosts are sorted
   * @param sql the same over {@code hosts} in plain SQL
   */
  StatsList(
      int id,
      String name,
      String comment,
      String source,
      ToLongFunction<HostStats> value,
      String sql) {
    super(id, name, comment, source);
    this.value = value;
    this.sql = sql;
  }

  @Override
  long value(HostStats host) {
    return value.applyAsLong(host);
  }

  @Override
  String sql() {
    return sql;
  }
}
