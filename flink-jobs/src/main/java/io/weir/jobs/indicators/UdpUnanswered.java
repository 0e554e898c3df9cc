package io.weir.jobs.indicators;

import io.weir.jobs.window.FlowCursor;

/** Hosts by UDP packets sent in unanswered flows, as scanners and floods send them. */
final class UdpUnanswered extends CountedList {
  UdpUnanswered() {
    super(
        11,
        "udp_unanswered",
        "UDP packets sent in flows that had no answer in the window",
        "Weir; cf. the work weight of Ourmon (Binkley and Massey, 2005), which needs ICMP errors");
  }

  @Override
  long count(FlowCursor flow, boolean source) {
    boolean unanswered =
        source
            && Kind.of(flow.protocol()) == Kind.UDP
            && !flow.isOneWay()
            && !flow.isOverflow()
            && flow.packetsSent(false) == 0;
    return unanswered ? flow.packetsSent(true) : 0;
  }

  @Override
  String countSql() {
    return "sumIf(packets_sent, is_source AND protocol = 17 AND NOT one_way AND okey = 0 AND packets_received = 0)";
  }
}
