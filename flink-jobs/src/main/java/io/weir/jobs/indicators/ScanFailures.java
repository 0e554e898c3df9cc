package io.weir.jobs.indicators;

/** Hosts by first contacts that failed, less those that were answered: four more call a scanner. */
final class ScanFailures extends HostList {
  ScanFailures() {
    super(
        7,
        "scan_failures",
        "first contacts that were not answered, less those that were",
        "Jung and others, Fast portscan detection using sequential hypothesis testing, 2004, within one window");
  }

  @Override
  long value(HostStats host) {
    return host.lead();
  }

  @Override
  String sql() {
    return "toInt64(failed) - toInt64(answered)";
  }
}
