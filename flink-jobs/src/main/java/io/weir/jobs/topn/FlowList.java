package io.weir.jobs.topn;

import io.weir.jobs.window.FlowCursor;
import io.weir.jobs.window.Listed;
import java.util.List;
import java.util.function.IntPredicate;

/** A list of the largest flows; a new one is a constant here, and an entry in {@link #ALL}. */
final class FlowList extends Listed {
  /** The value by which a list is sorted. */
  enum By {
    OCTETS("fwd_octets + rev_octets"),
    PACKETS("fwd_packets + rev_packets");

    final String sql;

    By(String sql) {
      this.sql = sql;
    }
  }

  private static final String OURMON =
      "Ourmon's top flows (Binkley and Massey, Ourmon and network monitoring performance, 2005); the key is the five-tuple of RFC 5103";

  /** The registry. */
  static final List<FlowList> ALL =
      List.of(
          new FlowList(1, "ip_octets", protocol -> true, "1", By.OCTETS),
          new FlowList(2, "ip_packets", protocol -> true, "1", By.PACKETS),
          new FlowList(3, "tcp_octets", protocol -> protocol == 6, "protocol = 6", By.OCTETS),
          new FlowList(4, "tcp_packets", protocol -> protocol == 6, "protocol = 6", By.PACKETS),
          new FlowList(5, "udp_octets", protocol -> protocol == 17, "protocol = 17", By.OCTETS),
          new FlowList(6, "udp_packets", protocol -> protocol == 17, "protocol = 17", By.PACKETS),
          new FlowList(7, "icmp_octets", FlowList::isIcmp, "protocol IN (1, 58)", By.OCTETS),
          new FlowList(8, "icmp_packets", FlowList::isIcmp, "protocol IN (1, 58)", By.PACKETS));

  /** The lists for flows of a protocol, by its number. */
  private static final FlowList[][] BY_PROTOCOL = byProtocol();

  private final IntPredicate protocols;
  private final String protocolsSql;
  private final By by;

  /** Declares a list of flows of these protocols. */
  private FlowList(int id, String name, IntPredicate protocols, String protocolsSql, By by) {
    super(id, name, name, "", OURMON);
    this.protocols = protocols;
    this.protocolsSql = protocolsSql;
    this.by = by;
  }

  /** The lists for flows of a protocol. */
  static FlowList[] of(int protocol) {
    return BY_PROTOCOL[protocol];
  }

  /** The value by which the flow is sorted. */
  long value(FlowCursor flow) {
    return by == By.OCTETS ? flow.octets() : flow.packets();
  }

  /**
   * In plain SQL: name, value, and the condition that selects the list's rows from {@code counted}.
   */
  String sql() {
    return "('%s', %s, %s)".formatted(name(), by.sql, protocolsSql);
  }

  private static boolean isIcmp(int protocol) {
    return protocol == 1 || protocol == 58;
  }

  private static FlowList[][] byProtocol() {
    FlowList[][] lists = new FlowList[256][];
    for (int protocol = 0; protocol < lists.length; protocol++) {
      int number = protocol;
      lists[protocol] =
          ALL.stream().filter(list -> list.protocols.test(number)).toArray(FlowList[]::new);
    }
    return lists;
  }
}
