package io.weir.jobs.indicators;

/** A list of hosts by what they began flows to, counted by {@link Scans}. */
abstract class ScanList extends HostList {
  /** A scan reaches at least two of what is counted. */
  static final int LEAST = 2;

  private final int kind;
  private final String word;

  ScanList(int id, String begin, String word, int kind, String comment) {
    super(id, begin + "_" + word, begin, comment, OURMON);
    this.kind = kind;
    this.word = word;
  }

  /** Number of the protocols, as in {@link Kind}. */
  final int kind() {
    return kind;
  }

  /** What puts a host in its place that has so many distinct destinations and ports. */
  abstract long value(long addresses, long ports);

  /** By how much the value may be off, where the addresses may be by {@code error}. */
  abstract long error(long error);

  /** The same over {@code scans} in plain SQL. */
  abstract String errorSql();

  @Override
  final long value(HostStats host) {
    throw new IllegalStateException(name() + " is counted apart");
  }

  @Override
  final String valuesSql() {
    return """
        SELECT w, scope, probe, host, '%s' AS list, toInt64(%s) AS value, %s, addresses, ports
        FROM scans WHERE kind = '%s' AND value >= %d"""
        .formatted(name(), sql(), errorSql(), word, LEAST);
  }
}
