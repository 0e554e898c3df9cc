package io.weir.jobs.indicators;

/**
 * The counts of one host in a window: a cursor over rows of numbers. Digests also have the first
 * {@link #SIZE} numbers of a row; the counts that lists add come after these.
 */
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

  /** ICMP errors: sent by the host, sent to it, and those sent to it that quote a UDP packet. */
  static final int ICMP_SENT = 11;

  static final int ICMP_RECV = 12;
  static final int ICMP_RECV_UDP = 13;

  /** Packets in overflow records, and the number of those that the TCP packets above include. */
  static final int OVERFLOW = 14;

  static final int OVERFLOW_TCP = 15;

  /** Flows that the host began, and overflow records of such flows, by {@link Kind}. */
  static final int BEGAN = 16;

  /**
   * Destinations that answered none of the host's SYNs in time, and those that answered at least
   * one.
   */
  static final int FAILED = 19;

  static final int ANSWERED = 20;
  static final int CUSTOMER = 21;
  static final int LOCAL = 22;
  static final int SIZE = 23;

  /** Minimum work weight of a worm, as Ourmon counts them. */
  private static final int WORM_WEIGHT = 40;

  /** Minimum number of SYNs of a worm: Ourmon's documents name none. */
  private static final int WORM_SYNS = 10;

  private static final int CONTROL_BITS = 40;

  private final long[] stats;
  private int at;

  HostStats(long[] stats) {
    this.stats = stats;
  }

  /** Points the cursor at the host whose row begins at {@code at}. */
  HostStats place(int place) {
    at = place;
    return this;
  }

  /** One of the numbers above. */
  long get(int number) {
    return stats[at + number];
  }

  boolean isLocal() {
    return stats[at + LOCAL] != 0;
  }

  int customer() {
    return (int) stats[at + CUSTOMER];
  }

  /** Control packets of Ourmon's work weight. */
  long control() {
    return stats[at + SYN_SENT] + stats[at + FIN_SENT] + stats[at + RST_RECV];
  }

  long tcpPackets() {
    return stats[at + TCP_SENT] + stats[at + TCP_RECV];
  }

  /** 100 * control packets / all TCP packets, rounded down; 0 if there are none. */
  long workWeight() {
    long packets = tcpPackets();
    return packets == 0 ? 0 : 100 * control() / packets;
  }

  /**
   * 100 * SYN-ACKs sent / SYNs received and sent, rounded down; 0 if there are none. Ourmon's
   * documents do not say which SYNs its SA/S divides by.
   */
  long synackShare() {
    long syns = stats[at + SYN_RECV] + stats[at + SYN_SENT];
    return syns == 0 ? 0 : 100 * stats[at + SYNACK_SENT] / syns;
  }

  /**
   * UDP packets sent * ICMP errors that came back for UDP packets, limited to the largest number.
   * Ourmon's documents say which counts go in; the weights that they print follow from no plain
   * product of these.
   */
  long udpWorkWeight() {
    long high = Math.multiplyHigh(stats[at + UDP_SENT], stats[at + ICMP_RECV_UDP]);
    return high != 0 ? Long.MAX_VALUE : stats[at + UDP_SENT] * stats[at + ICMP_RECV_UDP];
  }

  /** Failed first contacts minus answered ones. */
  long lead() {
    return stats[at + FAILED] - stats[at + ANSWERED];
  }

  /** Whether it counts as a worm: a work weight of 40 or more, and at least 10 SYNs sent. */
  boolean isWorm() {
    return stats[at + SYN_SENT] >= WORM_SYNS && workWeight() >= WORM_WEIGHT;
  }

  /** Whether it qualifies for the TCP port report, if there is room. */
  boolean isReported() {
    return workWeight() > 0;
  }

  /** The order in which hosts enter the port report: by work weight, then by control packets. */
  long reportOrder() {
    long weight = Math.min(workWeight(), 0xffff);
    return weight << CONTROL_BITS | Math.min(control(), (1L << CONTROL_BITS) - 1);
  }

  /** Flags of the TCP port report. */
  String flags() {
    StringBuilder flags = new StringBuilder();
    long weight = workWeight();
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
