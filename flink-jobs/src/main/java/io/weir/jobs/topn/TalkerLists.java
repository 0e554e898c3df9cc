package io.weir.jobs.topn;

import java.util.List;
import java.util.stream.Stream;

/** The lists of {@code top_talkers}; a new one is an entry here. */
final class TalkerLists {
  /** The registry of lists of hosts. */
  static final List<TalkerList.OfHosts> HOSTS =
      List.of(
          new TalkerList.OfHosts(1, "host_in", TalkerList.Side.RECEIVED),
          new TalkerList.OfHosts(2, "host_out", TalkerList.Side.SENT));

  /** The registry of lists by a number that flows have. */
  static final List<TalkerList.ByKey> KEYS =
      List.of(
          new TalkerList.Ports(3, "port_tcp", 6),
          new TalkerList.Ports(4, "port_udp", 17),
          TalkerList.OfEnds.systems(5),
          TalkerList.OfEnds.customers(6));

  private TalkerLists() {}

  /** All lists. */
  static List<TalkerList> all() {
    return Stream.<TalkerList>concat(HOSTS.stream(), KEYS.stream()).toList();
  }

  /** The list with this id. */
  static TalkerList of(int id) {
    return all().stream().filter(list -> list.id() == id).findFirst().orElseThrow();
  }
}
