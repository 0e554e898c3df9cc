package io.weir.jobs.indicators;

/** Hosts by UDP packets sent times the ICMP errors that came back for them. */
final class UdpWorkWeight extends HostList {
  UdpWorkWeight() {
    super(10, "udp_work_weight", "UDP packets sent * ICMP errors that came back for UDP", OURMON);
  }

  @Override
  long value(HostStats host) {
    return host.udpWorkWeight();
  }

  @Override
  String sql() {
    return "udp_work_weight";
  }
}
