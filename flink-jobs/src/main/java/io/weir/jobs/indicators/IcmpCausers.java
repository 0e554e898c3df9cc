package io.weir.jobs.indicators;

/** Hosts by ICMP errors that their UDP packets caused: RFC 792 and RFC 4443 quote the packet. */
final class IcmpCausers extends HostList {
  IcmpCausers() {
    super(9, "icmp_causers", "ICMP errors that came back for UDP", OURMON);
  }

  @Override
  long value(HostStats host) {
    return host.get(HostStats.ICMP_RECV_UDP);
  }

  @Override
  String sql() {
    return "icmp_recv_udp";
  }
}
