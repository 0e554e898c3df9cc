package io.weir.jobs.detect;

import io.weir.jobs.message.Addresses;
import io.weir.proto.Severity;
import java.util.Arrays;
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
  static final Reason REASON = new Reason("password_guessing", "T1110", 600_000);

  /** FTP, SSH, Telnet, SMB, RDP and VNC. */
  private static final Set<Integer> SERVICES = Set.of(21, 22, 23, 445, 3389, 5900);

  /** Connections in five minutes that open an alert, and that make it certain. */
  static final int LEAST = 9;

  static final int CERTAIN = 30;

  /** Octets of both directions and packets of a connection that may be a guess. */
  private static final long MOST_OCTETS = 20_000;

  private static final long MOST_PACKETS = 100;

  /** Standard deviation of the sizes, as a part of their mean. */
  private static final double EQUAL = .35;

  private static final long MINUTE_MS = 60_000;
  private static final int MINUTES = 5;
  private static final int TARGETS = 8;

  // The numbers of a target: its address and port, the newest minute, connections in each of the
  // last minutes, then number, sum and squares of all sizes, and when the first one came.
  private static final int PORT = 2;
  private static final int MINUTE = 3;
  private static final int COUNTS = 4;
  private static final int NUMBER = COUNTS + MINUTES;
  private static final int SUM = NUMBER + 1;
  private static final int SQUARES = SUM + 1;
  private static final int SINCE = SQUARES + 1;
  private static final int STRIDE = SINCE + 1;

  /** What is remembered of a host. */
  static final class Memory {
    private long[] targets = {};
    private final TreeMap<String, Long> probes = new TreeMap<>();
    private long until;
  }

  Guessing() {
    super(4, 1, 4, 64, false);
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
    group.add(0, 1);
    if (hasRoom(group)) {
      group.item(record.dstHigh, record.dstLow, flow.getDstPort(), octets);
    }
  }

  @Override
  Map<At, Memory> memories(Memories of) {
    return of.guessing;
  }

  @Override
  Memory fresh() {
    return new Memory();
  }

  @Override
  long weight(Memory memory) {
    long most = 0;
    for (int at = 0; at < memory.targets.length; at += STRIDE) {
      most = Math.max(most, recent(memory, at));
    }
    return most;
  }

  @Override
  long until(Memory memory) {
    return memory.until;
  }

  @Override
  void judge(Memory memory, Evidence evidence, Consumer<Finding> out) {
    memory.until = Math.max(memory.until, evidence.until());
    Event.count(memory.probes, evidence.probe(), evidence.number(0));
    for (int at = evidence.at() + numbers(); at < evidence.end(); at += stride()) {
      connection(memory, evidence, at);
    }
    for (int at = 0; at < memory.targets.length; at += STRIDE) {
      long recent = recent(memory, at);
      boolean now = memory.targets[at + MINUTE] == evidence.start() / MINUTE_MS;
      if (now && recent >= LEAST && spread(memory, at) <= EQUAL) {
        out.accept(finding(memory, at, recent, evidence));
        return; // others of its targets are the same event
      }
    }
  }

  private static void connection(Memory memory, Evidence evidence, int item) {
    long[] cells = evidence.cells();
    long minute = evidence.start() / MINUTE_MS;
    int at = target(memory, cells, item, minute);
    long[] of = memory.targets;
    if (of[at + MINUTE] - minute >= MINUTES) {
      return; // late
    }
    for (long next = of[at + MINUTE] + 1; next <= minute; next++) {
      of[at + COUNTS + (int) (next % MINUTES)] = 0;
    }
    of[at + MINUTE] = Math.max(of[at + MINUTE], minute);
    of[at + COUNTS + (int) (minute % MINUTES)]++;
    long octets = cells[item + 3];
    of[at + NUMBER]++;
    of[at + SUM] += octets;
    of[at + SQUARES] += octets * octets;
    of[at + SINCE] = Math.min(of[at + SINCE], evidence.start());
  }

  /** Where a target's numbers are; a new one replaces the one that was not seen for longest. */
  private static int target(Memory memory, long[] cells, int item, long minute) {
    int oldest = 0;
    for (int at = 0; at < memory.targets.length; at += STRIDE) {
      if (memory.targets[at] == cells[item]
          && memory.targets[at + 1] == cells[item + 1]
          && memory.targets[at + PORT] == cells[item + 2]) {
        if (minute - memory.targets[at + MINUTE] >= MINUTES) {
          begin(memory, at, cells, item, minute); // what was before is another event
        }
        return at;
      }
      oldest = memory.targets[at + MINUTE] < memory.targets[oldest + MINUTE] ? at : oldest;
    }
    if (memory.targets.length < TARGETS * STRIDE) {
      oldest = memory.targets.length;
      memory.targets = Arrays.copyOf(memory.targets, oldest + STRIDE);
    }
    begin(memory, oldest, cells, item, minute);
    return oldest;
  }

  private static void begin(Memory memory, int at, long[] cells, int item, long minute) {
    Arrays.fill(memory.targets, at, at + STRIDE, 0);
    System.arraycopy(cells, item, memory.targets, at, PORT + 1);
    memory.targets[at + MINUTE] = minute;
    memory.targets[at + SINCE] = Long.MAX_VALUE;
  }

  /** Connections of the last five minutes. */
  private static long recent(Memory memory, int at) {
    return Arrays.stream(memory.targets, at + COUNTS, at + NUMBER).sum();
  }

  /** The standard deviation of the sizes, as a part of their mean. */
  private static double spread(Memory memory, int at) {
    double mean = (double) memory.targets[at + SUM] / memory.targets[at + NUMBER];
    double variance =
        (double) memory.targets[at + SQUARES] / memory.targets[at + NUMBER] - mean * mean;
    return Math.sqrt(Math.max(0, variance)) / mean;
  }

  private static Finding finding(Memory memory, int at, long recent, Evidence evidence) {
    String target = Addresses.text(memory.targets[at], memory.targets[at + 1]);
    long port = memory.targets[at + PORT];
    long number = memory.targets[at + NUMBER];
    return new Finding(
        REASON,
        evidence.subject(),
        memory.targets[at + SINCE],
        evidence.until(),
        number,
        recent,
        LEAST,
        recent >= CERTAIN ? Severity.SEVERITY_WARNING : Severity.SEVERITY_INFO,
        String.format(
            Locale.ROOT,
            "%s opened %,d short connections of about %,d octets to port %d of %s in five minutes, as password guessers do.",
            evidence.subject().named(),
            recent,
            memory.targets[at + SUM] / number,
            port,
            target),
        Map.of("connections", number, "connections_of_five_minutes", recent),
        Map.of(target, number),
        List.of((int) port),
        memory.probes,
        "SELECT dst, dst_port, count() AS records, round(avg(octets)) AS mean_octets FROM v_records WHERE "
            + evidence.subject().sql(true)
            + " AND %s AND dst_port IN (21, 22, 23, 445, 3389, 5900)"
            + " GROUP BY dst, dst_port ORDER BY records DESC, dst, dst_port LIMIT 100");
  }
}
