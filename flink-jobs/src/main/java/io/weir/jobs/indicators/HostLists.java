package io.weir.jobs.indicators;

import io.weir.jobs.window.Listed;
import java.util.List;
import java.util.stream.Stream;

/** The lists of {@code top_indicators}: a new one is a class and a line here. */
final class HostLists {
  /** The registry. */
  static final List<HostList> ALL =
      List.of(
          new SynSenders(),
          new ScanAddresses(2, "tcp", Kind.TCP),
          new ScanAddresses(3, "udp", Kind.UDP),
          new ScanAddresses(4, "icmp", Kind.ICMP),
          new ScanPorts(5, "tcp", Kind.TCP),
          new ScanPorts(6, "udp", Kind.UDP),
          new ScanFailures(),
          new IcmpSenders(),
          new IcmpCausers(),
          new UdpWorkWeight(),
          new UdpUnanswered());

  /** Lists that count something for themselves. */
  static final CountedList[] COUNTED = counted();

  /** Lists whose value is known of every host, once its flows are counted. */
  static final HostList[] BY_STATS =
      ALL.stream().filter(list -> !(list instanceof ScanList)).toArray(HostList[]::new);

  /** Numbers of a row of {@link HostStats}, with what lists count for themselves. */
  static final int STRIDE = HostStats.SIZE + COUNTED.length;

  /** Largest id. */
  static final int LAST = ALL.stream().mapToInt(Listed::id).max().orElse(0);

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
