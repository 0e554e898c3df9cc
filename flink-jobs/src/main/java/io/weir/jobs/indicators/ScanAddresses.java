package io.weir.jobs.indicators;

/** Scanners by distinct destinations, of one protocol. */
final class ScanAddresses extends ScanList {
  ScanAddresses(int id, String word, int kind) {
    super(id, "scan_addresses", word, kind, "distinct destinations that the host began flows to");
  }

  @Override
  long value(long addresses, long ports) {
    return addresses;
  }

  @Override
  String sql() {
    return "addresses";
  }

  @Override
  long error(long error) {
    return error;
  }

  @Override
  String errorSql() {
    return "error";
  }
}
