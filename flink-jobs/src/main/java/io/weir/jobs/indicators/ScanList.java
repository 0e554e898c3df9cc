package io.weir.jobs.indicators;

/**
 * A list of hosts by the distinct destinations, or destination ports, of the flows that they
 * initiated in one protocol. {@link Scans} counts both.
 */
final class ScanList extends HostList {
  /** A scan reaches at least two destinations or ports. */
  static final int LEAST = 2;

  private final boolean byPorts;
  private final int kind;
  private final String word;

  private ScanList(int id, String begin, String word, int kind, boolean byPorts, String comment) {
    super(id, begin + "_" + word, begin, comment, OURMON);
    this.byPorts = byPorts;
    this.kind = kind;
    this.word = word;
  }

  /** By distinct destinations. */
  static ScanList ofAddresses(int id, String word, int kind) {
    String comment = "distinct destinations that the host began flows to";
    return new ScanList(id, "scan_addresses", word, kind, false, comment);
  }

  /** By distinct destination ports. */
  static ScanList ofPorts(int id, String word, int kind) {
    return new ScanList(id, "scan_ports", word, kind, true, "distinct destination ports");
  }

  /** Number of the protocols, as in {@link Kind}. */
  int kind() {
    return kind;
  }

  /** The value by which a host with these numbers of distinct destinations and ports is sorted. */
  long value(long addresses, long ports) {
    return byPorts ? ports : addresses;
  }

  /** The error bound of the value, given the addresses' bound {@code error}. */
  long error(long error) {
    return byPorts ? 0 : error; // what is sketched are addresses
  }

  @Override
  String sql() {
    return byPorts ? "ports" : "addresses";
  }

  @Override
  long value(HostStats host) {
    throw new IllegalStateException(name() + " is counted apart");
  }

  @Override
  String valuesSql() {
    return """
    SELECT w, scope, probe, host, '%s' AS list, toInt64(%s) AS value, %s, addresses, ports
    FROM scans WHERE kind = '%s' AND value >= %d\
    """
        .formatted(name(), sql(), byPorts ? "toUInt64(0)" : "error", word, LEAST);
  }
}
