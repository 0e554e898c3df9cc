package io.weir.jobs.detect;

import io.weir.jobs.message.Addresses;
import io.weir.proto.Severity;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;

/**
 * Hosts whose first contacts fail: on one port of many hosts (horizontal), or on many ports of one
 * host (vertical), by TCP.
 *
 * <p>A sequential test walks a step up for each host that does not answer on a port at first
 * contact, and a step down for each that does (Jung and others, "Fast portscan detection using
 * sequential hypothesis testing", 2004; steps are equal for theta0 0.8, theta1 0.2). The walk never
 * falls below 0, and goes on for as long as the host is remembered. One walk for each port: peers
 * of file sharing fail on ports that differ. An answer that comes later takes a failure back.
 */
final class Scan extends Detector<Scan.Memory> {
  static final Reason HORIZONTAL =
      new Reason(
          "scan_horizontal",
          "T1046",
          600_000,
          List.of(
              new Parameter(
                  "hosts",
                  25,
                  2,
                  64,
                  "hosts that must not answer on a port (Zeek's scan script: 25)"),
              new Parameter(
                  "walk", 20, 1, 64, "by how many they must outnumber those that answer")));
  static final Reason VERTICAL =
      new Reason(
          "scan_vertical",
          "T1046",
          600_000,
          List.of(
              new Parameter(
                  "ports",
                  15,
                  2,
                  64,
                  "ports of a host that must not answer (Zeek's scan script: 15)")));

  /** Contacts of a bad host that raise its alert's severity. */
  private static final int MANY = 10_000;

  private static final int CONTACTS = 64;
  private static final int LISTED = 8;

  /** The numbers of a group. */
  private enum Sum {
    /** Failed contacts that are not items. */
    UNLISTED,

    /** Records whose source is inside. */
    INSIDE
  }

  /** In an item's and a contact's port: whether the contact failed. */
  private static final long FAILED = 1L << 16;

  private static final long PORT = FAILED - 1;
  private static final int STRIDE = 3;

  /** Numbers of a port: itself, hosts that failed, hosts that answered, the walk. */
  private static final int PORT_STRIDE = 4;

  /** What is remembered of a host that began a contact that failed. */
  static final class Memory {
    /** Contacts, as items; the newest replace the oldest. */
    private long[] contacts = {};

    private int next;
    private long[] ports = {};

    /** Destinations with the number of their ports that failed, {@link #STRIDE} numbers each. */
    private long[] hosts = {};

    private long failed;

    /** Whether contacts failed that are not among those known. */
    private boolean more;

    private final TreeMap<String, Long> probes = new TreeMap<>();
    private long inside;
    private long since;
    private long until;
  }

  Scan() {
    super(
        1,
        Sum.values().length,
        STRIDE,
        64,
        false,
        new Remembers<>(of -> of.scans, Memory::new, memory -> memory.until));
  }

  @Override
  List<Reason> reasons() {
    return List.of(HORIZONTAL, VERTICAL);
  }

  @Override
  void see(Look record, Gathered into) {
    if (record.protocol != Look.TCP
        || record.overflowKey != 0
        || record.oneWay
        || record.flow.getInitiatorGuess()) {
      return;
    }
    boolean answered = record.flow.getRevTcpSynack() > 0;
    boolean failed = !answered && record.flow.getFwdTcpSyn() > 0 && record.isSettled();
    if (!answered && !failed) {
      return;
    }
    Gathered.Group group = into.of(this, Subject.host(record.srcHigh, record.srcLow));
    if (record.srcInside) {
      group.add(Sum.INSIDE, 1);
    }
    if (hasRoom(group)) {
      long port = record.flow.getDstPort() | (failed ? FAILED : 0);
      group.item(record.dstHigh, record.dstLow, port);
    } else if (failed) {
      group.add(Sum.UNLISTED, 1);
    }
  }

  @Override
  long weight(Memory memory) {
    return memory.failed;
  }

  /** Answers alone make nobody suspect. */
  @Override
  boolean begins(Evidence evidence) {
    for (int at = evidence.at() + numbers(); at < evidence.end(); at += STRIDE) {
      if ((evidence.cells()[at + 2] & FAILED) != 0) {
        return true;
      }
    }
    return false;
  }

  @Override
  void judge(Memory memory, Evidence evidence, Limits.Source limits, Consumer<Finding> out) {
    memory.since = memory.since == 0 ? evidence.start() : Math.min(memory.since, evidence.start());
    memory.until = Math.max(memory.until, evidence.until());
    memory.failed += evidence.number(Sum.UNLISTED);
    memory.more |= evidence.number(Sum.UNLISTED) > 0;
    memory.inside += evidence.number(Sum.INSIDE);
    long failed = evidence.number(Sum.UNLISTED);
    for (int at = evidence.at() + numbers(); at < evidence.end(); at += STRIDE) {
      long[] cells = evidence.cells();
      failed += (cells[at + 2] & FAILED) != 0 ? 1 : 0;
      contact(memory, cells[at], cells[at + 1], cells[at + 2]);
    }
    if (failed > 0) {
      Event.count(memory.probes, evidence.probe(), failed);
      horizontal(memory, evidence, limits.of(HORIZONTAL), out);
      vertical(memory, evidence, limits.of(VERTICAL), out);
    }
  }

  private static void contact(Memory memory, long high, long low, long portAndFlag) {
    long port = portAndFlag & PORT;
    boolean failed = (portAndFlag & FAILED) != 0;
    long[] known = memory.contacts;
    for (int at = 0; at < known.length; at += STRIDE) {
      if (known[at] == high && known[at + 1] == low && (known[at + 2] & PORT) == port) {
        if (!failed && (known[at + 2] & FAILED) != 0) {
          known[at + 2] &= ~FAILED;
          takeBack(memory, high, low, port);
        }
        return;
      }
    }
    if (known.length < CONTACTS * STRIDE) {
      memory.contacts = Arrays.copyOf(known, known.length + STRIDE);
    }
    int at = memory.next * STRIDE;
    memory.contacts[at] = high;
    memory.contacts[at + 1] = low;
    memory.contacts[at + 2] = portAndFlag;
    memory.next = (memory.next + 1) % CONTACTS;
    int of = port(memory, port, failed);
    if (of < 0) {
      return;
    }
    if (failed) {
      memory.failed++;
      memory.ports[of + 1]++;
      memory.ports[of + 3]++;
      int to = host(memory, high, low);
      memory.hosts[to + 2]++;
    } else {
      memory.ports[of + 2]++;
      memory.ports[of + 3] = Math.max(0, memory.ports[of + 3] - 1);
    }
  }

  private static void takeBack(Memory memory, long high, long low, long port) {
    memory.failed = Math.max(0, memory.failed - 1);
    int of = port(memory, port, false);
    if (of >= 0) {
      memory.ports[of + 1] = Math.max(0, memory.ports[of + 1] - 1);
      memory.ports[of + 2]++;
      memory.ports[of + 3] = Math.max(0, memory.ports[of + 3] - 2);
    }
    for (int at = 0; at < memory.hosts.length; at += STRIDE) {
      if (memory.hosts[at] == high && memory.hosts[at + 1] == low) {
        memory.hosts[at + 2] = Math.max(0, memory.hosts[at + 2] - 1);
      }
    }
  }

  /** Where a port's numbers are; if it has none and is not to be made, -1. */
  private static int port(Memory memory, long port, boolean make) {
    int least = 0;
    for (int at = 0; at < memory.ports.length; at += PORT_STRIDE) {
      if (memory.ports[at] == port) {
        return at;
      }
      least = memory.ports[at + 1] < memory.ports[least + 1] ? at : least;
    }
    if (!make) {
      return -1;
    }
    if (memory.ports.length < LISTED * PORT_STRIDE) {
      least = memory.ports.length;
      memory.ports = Arrays.copyOf(memory.ports, least + PORT_STRIDE);
    }
    Arrays.fill(memory.ports, least, least + PORT_STRIDE, 0);
    memory.ports[least] = port;
    return least;
  }

  /** Where the number of a destination is. */
  private static int host(Memory memory, long high, long low) {
    int least = 0;
    for (int at = 0; at < memory.hosts.length; at += STRIDE) {
      if (memory.hosts[at] == high && memory.hosts[at + 1] == low) {
        return at;
      }
      least = memory.hosts[at + 2] < memory.hosts[least + 2] ? at : least;
    }
    if (memory.hosts.length < LISTED * STRIDE) {
      least = memory.hosts.length;
      memory.hosts = Arrays.copyOf(memory.hosts, least + STRIDE);
    }
    memory.hosts[least] = high;
    memory.hosts[least + 1] = low;
    memory.hosts[least + 2] = 0;
    return least;
  }

  private static void horizontal(
      Memory memory, Evidence evidence, Limits limits, Consumer<Finding> out) {
    List<long[]> found = new ArrayList<>();
    for (int at = 0; at < memory.ports.length; at += PORT_STRIDE) {
      if (memory.ports[at + 1] >= limits.get("hosts")
          && memory.ports[at + 3] >= limits.get("walk")) {
        found.add(Arrays.copyOfRange(memory.ports, at, at + PORT_STRIDE));
      }
    }
    if (found.isEmpty()) {
      return;
    }
    found.sort(Comparator.comparingLong((long[] port) -> -port[1]).thenComparingLong(p -> p[0]));
    long[] first = found.get(0);
    Map<String, Long> peers = new LinkedHashMap<>();
    for (int at = 0; at < memory.contacts.length && peers.size() < Event.PEERS; at += STRIDE) {
      if (memory.contacts[at + 2] == (first[0] | FAILED)) {
        peers.put(Addresses.text(memory.contacts[at], memory.contacts[at + 1]), 1L);
      }
    }
    String ports = found.size() == 1 ? "" : " (and of " + (found.size() - 1) + " more)";
    out.accept(
        finding(
            HORIZONTAL,
            memory,
            evidence,
            first[3],
            limits.get("walk"),
            String.format(
                Locale.ROOT,
                "%s tried port %d%s of %s%,d hosts that did not answer; %,d answered.",
                evidence.subject().named(),
                first[0],
                ports,
                memory.more ? "at least " : "",
                first[1],
                first[2]),
            Map.of(
                "hosts_failed",
                first[1],
                "hosts_answered",
                first[2],
                "contacts_failed",
                memory.failed),
            peers,
            found.stream().map(port -> (int) port[0]).toList()));
  }

  private static void vertical(
      Memory memory, Evidence evidence, Limits limits, Consumer<Finding> out) {
    Map<String, Long> peers = new LinkedHashMap<>();
    int most = 0;
    for (int at = 0; at < memory.hosts.length; at += STRIDE) {
      if (memory.hosts[at + 2] >= limits.get("ports")) {
        peers.put(Addresses.text(memory.hosts[at], memory.hosts[at + 1]), memory.hosts[at + 2]);
        most = memory.hosts[at + 2] > memory.hosts[most + 2] ? at : most;
      }
    }
    if (peers.isEmpty()) {
      return;
    }
    long ports = memory.hosts[most + 2];
    String others = peers.size() == 1 ? "" : " (and of " + (peers.size() - 1) + " more)";
    out.accept(
        finding(
            VERTICAL,
            memory,
            evidence,
            ports,
            limits.get("ports"),
            String.format(
                Locale.ROOT,
                "%s tried %,d ports of %s%s that did not answer.",
                evidence.subject().named(),
                ports,
                Addresses.text(memory.hosts[most], memory.hosts[most + 1]),
                others),
            Map.of("ports_failed", ports, "contacts_failed", memory.failed),
            peers,
            List.of()));
  }

  private static Finding finding(
      Reason reason,
      Memory memory,
      Evidence evidence,
      long score,
      double threshold,
      String text,
      Map<String, Long> values,
      Map<String, Long> peers,
      List<Integer> ports) {
    boolean many = memory.failed >= MANY;
    Severity outside = many ? Severity.SEVERITY_WARNING : Severity.SEVERITY_INFO;
    Severity inside = many ? Severity.SEVERITY_CRITICAL : Severity.SEVERITY_WARNING;
    Finding.Degree degree =
        new Finding.Degree(memory.failed, score, threshold, memory.inside > 0 ? inside : outside);
    String sql =
        "SELECT dst, dst_port, count() AS records FROM v_records WHERE "
            + evidence.subject().sql(true)
            + " AND %s AND fwd_tcp_syn > 0 AND rev_tcp_synack = 0"
            + " GROUP BY dst, dst_port ORDER BY records DESC, dst, dst_port LIMIT 100";
    Finding.Shown shown = new Finding.Shown(text, values, peers, ports, memory.probes, sql);
    return new Finding(reason, evidence.subject(), memory.since, memory.until, degree, shown);
  }
}
