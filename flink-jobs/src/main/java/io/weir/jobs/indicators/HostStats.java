package io.weir.jobs.indicators;

/** What is counted for each host of a window, by place in a row of numbers. */
final class HostStats {
  static final int SYN_SENT = 0;
  static final int SYNACK_SENT = 1;
  static final int FIN_SENT = 2;
  static final int RST_SENT = 3;
  static final int SYN_RECV = 4;
  static final int SYNACK_RECV = 5;
  static final int FIN_RECV = 6;
  static final int RST_RECV = 7;
  static final int TCP_SENT = 8;
  static final int TCP_RECV = 9;
  static final int UDP_SENT = 10;

  /** ICMP errors: sent, sent to the host, of these such as quote a UDP packet. */
  static final int ICMP_SENT = 11;

  static final int ICMP_RECV = 12;
  static final int ICMP_RECV_UDP = 13;

  /** Packets that came in overflow records; of these what is in the TCP packets above. */
  static final int OVERFLOW = 14;

  static final int OVERFLOW_TCP = 15;

  /** Flows that the host began, and overflow records of such: TCP, UDP, ICMP. */
  static final int BEGAN = 16;

  /** Destinations that answered none of its SYNs in time, and that answered one. */
  static final int FAILED = 19;

  static final int ANSWERED = 20;
  static final int CUSTOMER = 21;
  static final int LOCAL = 22;
  static final int SIZE = 23;

  private HostStats() {}

  static long control(long[] stats, int at) {
    return stats[at + SYN_SENT] + stats[at + FIN_SENT] + stats[at + RST_RECV];
  }

  static long tcpPackets(long[] stats, int at) {
    return stats[at + TCP_SENT] + stats[at + TCP_RECV];
  }

  /** 100 * control packets / all TCP packets, rounded down; 0 where there are none. */
  static long workWeight(long[] stats, int at) {
    long packets = tcpPackets(stats, at);
    return packets == 0 ? 0 : 100 * control(stats, at) / packets;
  }

  /** 100 * SYN-ACKs sent / SYNs received and sent, rounded down; 0 where there are none. */
  static long synackShare(long[] stats, int at) {
    long syns = stats[at + SYN_RECV] + stats[at + SYN_SENT];
    return syns == 0 ? 0 : 100 * stats[at + SYNACK_SENT] / syns;
  }

  /** UDP packets sent * ICMP errors that came back for UDP packets; cut at the largest number. */
  static long udpWorkWeight(long[] stats, int at) {
    long high = Math.multiplyHigh(stats[at + UDP_SENT], stats[at + ICMP_RECV_UDP]);
    return high != 0 ? Long.MAX_VALUE : stats[at + UDP_SENT] * stats[at + ICMP_RECV_UDP];
  }

  /** Ourmon's worm: a work weight of 40 or more, and at least 10 SYNs sent. */
  static boolean isWorm(long[] stats, int at) {
    return stats[at + SYN_SENT] >= 10 && workWeight(stats, at) >= 40;
  }

  /** Flags of the TCP port report. */
  static String flags(long[] stats, int at) {
    StringBuilder flags = new StringBuilder();
    long weight = workWeight(stats, at);
    long control =
        stats[at + SYN_RECV]
            + stats[at + SYNACK_RECV]
            + stats[at + FIN_RECV]
            + stats[at + RST_RECV];
    flags.append(stats[at + ICMP_RECV] > 0 ? "E" : "");
    flags.append(weight >= 90 ? "W" : weight >= 50 ? "w" : "");
    flags.append(stats[at + FIN_RECV] == 0 ? "O" : "");
    flags.append(stats[at + RST_RECV] > 0 ? "R" : "");
    flags.append(stats[at + TCP_RECV] - control < stats[at + SYN_SENT] ? "M" : "");
    return flags.toString();
  }
}
