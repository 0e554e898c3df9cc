package io.weir.jobs.detect;

import io.weir.jobs.message.Addresses;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** The first addresses at the other end, and the ports, with counts. */
final class Peers {
  /** How many addresses and how many ports are known; later ones are not counted. */
  static final int MOST = 16;

  private static final int STRIDE = 3;

  private long[] addresses = {};
  private final TreeMap<Integer, Long> ports = new TreeMap<>();

  /** Whether there may be more addresses than these. */
  private boolean more;

  void clear() {
    addresses = new long[0];
    more = false;
    ports.clear();
  }

  private void add(long high, long low, int port) {
    if (ports.size() < MOST || ports.containsKey(port)) {
      ports.merge(port, 1L, Long::sum);
    }
    int at = 0;
    while (at < addresses.length && (addresses[at] != high || addresses[at + 1] != low)) {
      at += STRIDE;
    }
    if (at == addresses.length) {
      if (at == MOST * STRIDE) {
        more = true;
        return;
      }
      addresses = Arrays.copyOf(addresses, at + STRIDE);
      addresses[at] = high;
      addresses[at + 1] = low;
    }
    addresses[at + 2]++;
  }

  /** Takes in the items of evidence, each an address and a port, and a count of those left out. */
  void add(Evidence evidence, int numbers, long leftOut) {
    more |= leftOut > 0;
    for (int at = evidence.at() + numbers; at < evidence.end(); at += STRIDE) {
      long[] cells = evidence.cells();
      add(cells[at], cells[at + 1], (int) cells[at + 2]);
    }
  }

  /** The number of distinct addresses, as sentences have it. */
  String number() {
    return (more ? "at least " : "") + distinct();
  }

  /** Distinct addresses, up to {@link #MOST}. */
  int distinct() {
    return addresses.length / STRIDE;
  }

  /** What people see of a finding about these. */
  Finding.Shown shown(String text, Map<String, Long> values, Map<String, Long> probes, String sql) {
    return new Finding.Shown(text, values, first(), mostFrequent(), probes, sql);
  }

  private Map<String, Long> first() {
    Map<String, Long> first = new LinkedHashMap<>();
    for (int at = 0; at < addresses.length && first.size() < Event.PEERS; at += STRIDE) {
      first.put(Addresses.text(addresses[at], addresses[at + 1]), addresses[at + 2]);
    }
    return first;
  }

  /** The most frequent ports, for an alert. */
  List<Integer> mostFrequent() {
    return ports.entrySet().stream()
        .sorted(Map.Entry.<Integer, Long>comparingByValue().reversed())
        .limit(Event.PORTS)
        .map(Map.Entry::getKey)
        .toList();
  }
}
