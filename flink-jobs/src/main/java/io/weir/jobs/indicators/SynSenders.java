package io.weir.jobs.indicators;

/** Hosts by SYNs sent. */
final class SynSenders extends HostList {
  SynSenders() {
    super(1, "syn_senders", "SYNs sent", OURMON);
  }

  @Override
  long value(HostStats host) {
    return host.get(HostStats.SYN_SENT);
  }

  @Override
  String sql() {
    return "syn_sent";
  }
}
