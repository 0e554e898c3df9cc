package io.weir.jobs.indicators;

/** Hosts by ICMP errors sent. */
final class IcmpSenders extends HostList {
  IcmpSenders() {
    super(8, "icmp_senders", "ICMP errors sent", OURMON);
  }

  @Override
  long value(HostStats host) {
    return host.get(HostStats.ICMP_SENT);
  }

  @Override
  String sql() {
    return "icmp_sent";
  }
}
