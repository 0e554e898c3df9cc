package io.weir.jobs.indicators;

import java.util.List;
import java.util.stream.Stream;

/**
 * The lists of {@code top_indicators}: a new list is an entry here; one that counts something new
 * in each flow is also a class, see {@link CountedList}.
 */
final class HostLists {
  /** Hosts by UDP packets sent, times the ICMP errors that came back for these packets. */
  static final HostList UDP_WORK_WEIGHT =
      new StatsList(
          10,
          "udp_work_weight",
          "UDP packets sent * ICMP errors that came back for UDP",
          HostList.OURMON + "; the plain product is Weir's reading",
          HostStats::udpWorkWeight,
          "udp_work_weight");

  /** The registry. RFC 792 and RFC 4443: ICMP errors quote the packet that caused them. */
  static final List<HostList> ALL =
      List.of(
          new StatsList(
              1,
              "syn_senders",
              "SYNs sent",
              HostList.OURMON,
              host -> host.get(HostStats.SYN_SENT),
              "syn_sent"),
          ScanList.ofAddresses(2, "tcp", Kind.TCP),
          ScanList.ofAddresses(3, "udp", Kind.UDP),
          ScanList.ofAddresses(4, "icmp", Kind.ICMP),
          ScanList.ofPorts(5, "tcp", Kind.TCP),
          ScanList.ofPorts(6, "udp", Kind.UDP),
          // Four more failures than answers identify a scanner.
          new StatsList(
              7,
              "scan_failures",
              "failed first contacts minus answered ones",
              "Jung and others, Fast portscan detection using sequential hypothesis testing, 2004, within one window",
              HostStats::lead,
              "toInt64(failed) - toInt64(answered)"),
          new StatsList(
              8,
              "icmp_senders",
              "ICMP errors sent",
              HostList.OURMON,
              host -> host.get(HostStats.ICMP_SENT),
              "icmp_sent"),
          new StatsList(
              9,
              "icmp_causers",
              "ICMP errors that came back for UDP",
              HostList.OURMON,
              host -> host.get(HostStats.ICMP_RECV_UDP),
              "icmp_recv_udp"),
          UDP_WORK_WEIGHT,
          new UdpUnanswered());

  /** Lists with a count of their own. */
  static final CountedList[] COUNTED = counted();

  /** Lists whose value is known for every host as soon as its flows are counted. */
  static final HostList[] BY_STATS =
      ALL.stream().filter(list -> !(list instanceof ScanList)).toArray(HostList[]::new);

  /** Numbers of a row of {@link HostStats}, including the counts that lists add. */
  static final int STRIDE = HostStats.SIZE + COUNTED.length;

  private HostLists() {}

  private static CountedList[] counted() {
    Stream<CountedList> lists =
        ALL.stream().filter(CountedList.class::isInstance).map(CountedList.class::cast);
    CountedList[] counted = lists.toArray(CountedList[]::new);
    for (int i = 0; i < counted.length; i++) {
      counted[i].put(HostStats.SIZE + i);
    }
    return counted;
  }
}
