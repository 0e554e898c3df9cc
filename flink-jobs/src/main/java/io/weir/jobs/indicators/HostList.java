package io.weir.jobs.indicators;

import io.weir.jobs.window.Listed;

/**
 * A list in {@code top_indicators}: the hosts with the largest values. {@link HostLists} names them
 * all.
 */
abstract class HostList extends Listed {
  static final String OURMON =
      "Ourmon (Binkley and Massey, Ourmon and network monitoring performance, 2005, and its manual)";

  HostList(int id, String name, String group, String comment, String source) {
    super(id, name, group, comment, source);
  }

  HostList(int id, String name, String comment, String source) {
    this(id, name, name, comment, source);
  }

  /** The value by which the list is sorted; a host with 0 or less is left out. */
  abstract long value(HostStats host);

  /** The same value in plain SQL over {@code hosts}. */
  abstract String sql();

  /** The rows of {@code values} in plain SQL. */
  String valuesSql() {
    return """
    SELECT w, scope, probe, host, '%s' AS list, toInt64(%s) AS value, toUInt64(0) AS error,
           toUInt64(0) AS addresses, toUInt64(0) AS ports FROM hosts\
    """
        .formatted(name(), sql());
  }
}
