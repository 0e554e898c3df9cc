package io.weir.jobs.indicators;

/** Scanners by distinct destination ports, of one protocol. */
final class ScanPorts extends ScanList {
  ScanPorts(int id, String word, int kind) {
    super(id, "scan_ports", word, kind, "distinct destination ports");
  }

  @Override
  long value(long addresses, long ports) {
    return ports;
  }

  @Override
  String sql() {
    return "ports";
  }

  @Override
  long error(long error) {
    return 0; // what is sketched are addresses
  }

  @Override
  String errorSql() {
    return "toUInt64(0)";
  }
}
