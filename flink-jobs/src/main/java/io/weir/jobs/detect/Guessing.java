package io.weir.jobs.detect;

import io.weir.jobs.message.Addresses;
import io.weir.proto.Severity;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Consumer;

/**
 * Hosts that guess passwords: many short connections, of about the same size, to a service of one
 * host that asks for a login.
 */
final class Guessing extends Detector<Guessing.Memory> {
  static final Reason REASON =
      new Reason(
          "password_guessing",
          "T1110",
          600_000,
          List.of(
              new Parameter("connections", 9, 2, 1e9, "connections to one service in five minutes"),
              new Parameter("certain", 30, 2, 1e9, "connections from which on it is a warning")));

  /** FTP, SSH, Telnet, SMB, RDP and VNC. */
  private static final Set<Integer> SERVICES = Set.of(21, 22, 23, 445, 3389, 5900);

  /** Octets of both directions and packets of a connection that may be a guess. */
  private static final long MOST_OCTETS = 20_000;

  private static final long MOST_PACKETS = 100;

  /** Standard deviation of the sizes, as a part of their mean. */
  private static final double EQUAL = .35;

  private static final long MINUTE_MS = 60_000;
  private static final int MINUTES = 5;
  private static final int TARGETS = 8;

  /** The numbers of a group. */
  private enum Sum {
    CONNECTIONS
  }

  /** A service of a host. */
  record Service(long high, long low, int port) {}

  /** The connections to one service. */
  static final class Target {
    private long minute;

    /** Connections in each of the last minutes. */
    private long[] counts = new long[MINUTES];

    private long number;
    private long octets;

    /** Sum of the squares of the sizes. */
    private long squares;

    private long since;

    private long recent() {
      return Arrays.stream(counts).sum();
    }

    /** The standard deviation of the sizes, as a part of their mean. */
    private double spread() {
      double mean = (double) octets / number;
      return Math.sqrt(Math.max(0, (double) squares / number - mean * mean)) / mean;
    }
  }

  /** What is remembered of a host. */
  static final class Memory {
    private final HashMap<Service, Target> targets = new HashMap<>();
    private final TreeMap<String, Long> probes = new TreeMap<>();
    private long until;
  }

  Guessing() {
    super(
        4,
        Sum.values().length,
        4,
        64,
        false,
        new Remembers<>(of -> of.guessing, Memory::new, memory -> memory.until));
  }

  @Override
  List<Reason> reasons() {
    return List.of(REASON);
  }

  @Override
  void see(Look record, Gathered into) {
    if (record.protocol != Look.TCP
        || record.overflowKey != 0
        || !SERVICES.contains(record.flow.getDstPort())) {
      return;
    }
    var flow = record.flow;
    boolean ended =
        (flow.getFwdTcpFin() | flow.getRevTcpFin() | flow.getFwdTcpRst() | flow.getRevTcpRst())
            != 0;
    long octets = flow.getFwdOctets() + flow.getRevOctets();
    if (flow.getFwdTcpSyn() == 0
        || flow.getRevTcpSynack() == 0
        || !record.isHandshakeComplete()
        || !ended
        || octets > MOST_OCTETS
        || flow.getFwdPackets() + flow.getRevPackets() > MOST_PACKETS) {
      return;
    }
    Gathered.Group group = into.of(this, Subject.host(record.srcHigh, record.srcLow));
    group.add(Sum.CONNECTIONS, 1);
    if (hasRoom(group)) {
      group.item(record.dstHigh, record.dstLow, flow.getDstPort(), octets);
    }
  }

  @Override
  long weight(Memory memory) {
    return memory.targets.values().stream().mapToLong(Target::recent).max().orElse(0);
  }

  @Override
  void judge(Memory memory, Evidence evidence, Limits.Source limits, Consumer<Finding> out) {
    memory.until = Math.max(memory.until, evidence.until());
    Event.count(memory.probes, evidence.probe(), evidence.number(Sum.CONNECTIONS));
    Service worst = null;
    Limits limit = limits.of(REASON);
    for (int at = evidence.at() + numbers(); at < evidence.end(); at += stride()) {
      long[] cells = evidence.cells();
      Service service = new Service(cells[at], cells[at + 1], (int) cells[at + 2]);
      Target target = target(memory, service, evidence.start());
      connection(target, evidence.start(), cells[at + 3]);
      boolean guessed = target.recent() >= limit.get("connections") && target.spread() <= EQUAL;
      if (guessed && (worst == null || target.recent() > memory.targets.get(worst).recent())) {
        worst = service;
      }
    }
    if (worst != null) {
      out.accept(
          finding(memory, worst, evidence, limit)); // others of its targets are the same event
    }
  }

  private static void connection(Target target, long start, long octets) {
    long minute = start / MINUTE_MS;
    if (target.minute - minute >= MINUTES) {
      return; // late
    }
    for (long next = target.minute + 1; next <= minute; next++) {
      target.counts[(int) (next % MINUTES)] = 0;
    }
    target.minute = Math.max(target.minute, minute);
    target.counts[(int) (minute % MINUTES)]++;
    target.number++;
    target.octets += octets;
    target.squares += octets * octets;
    target.since = Math.min(target.since, start);
  }

  /** What is known of a service; a new one replaces the one that was not seen for longest. */
  private static Target target(Memory memory, Service service, long start) {
    Target known = memory.targets.get(service);
    if (known != null && start / MINUTE_MS - known.minute < MINUTES) {
      return known; // else what was before is another event
    }
    if (known == null && memory.targets.size() == TARGETS) {
      memory.targets.entrySet().stream()
          .min(Comparator.comparingLong(one -> one.getValue().minute))
          .ifPresent(oldest -> memory.targets.remove(oldest.getKey()));
    }
    Target target = new Target();
    target.minute = start / MINUTE_MS;
    target.since = start;
    memory.targets.put(service, target);
    return target;
  }

  private static Finding finding(Memory memory, Service service, Evidence evidence, Limits limit) {
    Target target = memory.targets.get(service);
    String host = Addresses.text(service.high, service.low);
    long recent = target.recent();
    String text =
        String.format(
            Locale.ROOT,
            "%s opened %,d short connections of about %,d octets to port %d of %s in five minutes, as password guessers do.",
            evidence.subject().named(),
            recent,
            target.octets / target.number,
            service.port,
            host);
    Finding.Shown shown =
        new Finding.Shown(
            text,
            Map.of("connections", target.number, "connections_of_five_minutes", recent),
            Map.of(host, target.number),
            List.of(service.port),
            memory.probes,
            "SELECT dst, dst_port, count() AS records, round(avg(octets)) AS mean_octets FROM v_records WHERE "
                + evidence.subject().sql(true)
                + " AND %s AND dst_port IN (21, 22, 23, 445, 3389, 5900)"
                + " GROUP BY dst, dst_port ORDER BY records DESC, dst, dst_port LIMIT 100");
    Severity severity =
        recent >= limit.get("certain") ? Severity.SEVERITY_WARNING : Severity.SEVERITY_INFO;
    Finding.Degree degree =
        new Finding.Degree(target.number, recent, limit.get("connections"), severity);
    long until = evidence.until();
    return new Finding(REASON, evidence.subject(), target.since, until, degree, shown);
  }
}
