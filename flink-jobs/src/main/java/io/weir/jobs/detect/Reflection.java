package io.weir.jobs.detect;

import io.weir.proto.Severity;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;

/**
 * Hosts that get large answers of many servers to questions that they did not ask: reflection with
 * amplification by UDP (CISA's alert TA14-017A and later lists of protocols).
 */
final class Reflection extends Detector<Reflection.Memory> {
  static final Reason REASON = new Reason("reflection", "T1498.002", 60_000);

  /** Ports of services that amplify. */
  private static final Set<Integer> SERVICES =
      Set.of(
          17, 19, 53, 69, 111, 123, 137, 161, 389, 520, 1900, 3283, 3702, 5353, 5683, 11211, 27015,
          37810);

  /** Servers that must take part. */
  static final int REFLECTORS = 10;

  /** Bits in a second. */
  static final long FLOOR = 1_000_000;

  /** Mean octets of an answer's packets. */
  private static final int MEAN = 400;

  /** How many times the octets of the question an answer has. */
  private static final int AMPLIFIED = 10;

  private static final int OCTETS = 0;
  private static final int PACKETS = 1;
  private static final int UNLISTED = 2;

  /** What is remembered of a host. */
  static final class Memory {
    private final Spans octets = new Spans();
    private final Spans packets = new Spans();
    private final Peers reflectors = new Peers();
    private boolean hit;

    /** Octets since the attack began. */
    private long seen;

    private long since;
    private long until;
  }

  Reflection() {
    super(3, 3, 3, 16, true);
  }

  @Override
  List<Reason> reasons() {
    return List.of(REASON);
  }

  @Override
  void see(Look record, Gathered into) {
    if (record.protocol != Look.UDP || record.overflowKey != 0) {
      return;
    }
    // The side seen first counts as the source: it is the server where the question was not seen.
    if (SERVICES.contains(record.flow.getSrcPort())) {
      gather(record, true, into);
    } else if (SERVICES.contains(record.flow.getDstPort())) {
      gather(record, false, into);
    }
  }

  private void gather(Look record, boolean bySource, Gathered into) {
    long sent = bySource ? record.flow.getFwdOctets() : record.flow.getRevOctets();
    long packets = bySource ? record.flow.getFwdPackets() : record.flow.getRevPackets();
    long asked = bySource ? record.flow.getRevOctets() : record.flow.getFwdOctets();
    if (packets == 0 || sent < AMPLIFIED * asked || sent < MEAN * packets) {
      return;
    }
    Subject victim =
        bySource
            ? Subject.host(record.dstHigh, record.dstLow)
            : Subject.host(record.srcHigh, record.srcLow);
    Gathered.Group group = into.of(this, victim);
    group.add(OCTETS, sent);
    group.add(PACKETS, packets);
    if (hasRoom(group)) {
      group.item(
          bySource ? record.srcHigh : record.dstHigh,
          bySource ? record.srcLow : record.dstLow,
          bySource ? record.flow.getSrcPort() : record.flow.getDstPort());
    } else {
      group.add(UNLISTED, 1);
    }
  }

  @Override
  Map<At, Memory> memories(Memories of) {
    return of.reflections;
  }

  @Override
  Memory fresh() {
    return new Memory();
  }

  @Override
  long weight(Memory memory) {
    return memory.octets.newest();
  }

  @Override
  long until(Memory memory) {
    return memory.until;
  }

  @Override
  void judge(Memory memory, Evidence evidence, Consumer<Finding> out) {
    long after = memory.octets.begin(evidence);
    memory.packets.begin(evidence);
    if (after > 0) {
      memory.reflectors.clear();
      memory.hit = memory.hit && after == 1;
    }
    long octets = memory.octets.add(evidence, evidence.number(OCTETS));
    long packets = memory.packets.add(evidence, evidence.number(PACKETS));
    memory.seen += evidence.number(OCTETS);
    memory.reflectors.add(evidence, numbers(), evidence.number(UNLISTED));
    memory.until = Math.max(memory.until, evidence.until());
    double bits = 8 * Spans.rate(octets, evidence);
    if (bits < FLOOR || memory.reflectors.distinct() < REFLECTORS) {
      return;
    }
    if (!memory.hit) {
      memory.since = evidence.start();
      memory.seen = octets;
    }
    memory.hit = true;
    int port = memory.reflectors.mostFrequent().get(0);
    out.accept(
        new Finding(
            REASON,
            evidence.subject(),
            memory.since,
            evidence.until(),
            Math.round(bits),
            bits,
            FLOOR,
            bits >= 100 * FLOOR ? Severity.SEVERITY_CRITICAL : Severity.SEVERITY_WARNING,
            String.format(
                Locale.ROOT,
                "%s gets %,d bit/s of answers that it did not ask for, from port %d of %s servers.",
                evidence.subject().named(),
                Math.round(bits),
                port,
                memory.reflectors.number()),
            Map.of(
                "bits_per_second",
                Math.round(bits),
                "octets_of_ten_seconds",
                octets,
                "packets_of_ten_seconds",
                packets),
            memory.reflectors.first(),
            memory.reflectors.mostFrequent(),
            Map.of(evidence.probe(), memory.seen),
            "SELECT src, src_port, dst, dst_port, sum(octets) AS octets FROM v_records WHERE ("
                + evidence.subject().sql(false)
                + " OR "
                + evidence.subject().sql(true)
                + ") AND %s AND protocol_name = 'UDP' AND (src_port = "
                + port
                + " OR dst_port = "
                + port
                + ") GROUP BY src, src_port, dst, dst_port ORDER BY octets DESC, src LIMIT 100"));
  }
}
