package io.weir.jobs.detect;

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
  static final Reason REASON =
      new Reason(
          "reflection",
          "T1498.002",
          60_000,
          List.of(
              new Parameter("reflectors", 10, 1, Peers.MOST, "servers that must take part"),
              new Parameter("bits_per_second", 1_000_000, 1, 1e15, "bits in a second")));

  /** Ports of services that amplify. */
  private static final Set<Integer> SERVICES =
      Set.of(
          17, 19, 53, 69, 111, 123, 137, 161, 389, 520, 1900, 3283, 3702, 5353, 5683, 11211, 27015,
          37810);

  /** Mean octets of an answer's packets. */
  private static final int MEAN = 400;

  /** How many times the octets that the host sends it gets. */
  private static final int AMPLIFIED = 10;

  /** The numbers of a group. */
  private enum Sum {
    OCTETS,
    PACKETS,

    /** Flows whose servers are not items. */
    UNLISTED
  }

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
    super(
        3,
        3,
        3,
        16,
        true,
        new Remembers<>(of -> of.reflections, Memory::new, memory -> memory.until));
  }

  @Override
  List<Reason> reasons() {
    return List.of(REASON);
  }

  @Override
  void see(Look record, Gathered into) {
    var flow = record.flow;
    // The source is the side seen first: who asked is the source, and gets no answer unasked.
    if (record.protocol != Look.UDP
        || record.overflowKey != 0
        || record.oneWay
        || !SERVICES.contains(flow.getSrcPort())
        || flow.getFwdOctets() < AMPLIFIED * flow.getRevOctets()
        || flow.getFwdOctets() < MEAN * flow.getFwdPackets()
        || flow.getFwdPackets() == 0) {
      return;
    }
    Gathered.Group group = into.of(this, Subject.host(record.dstHigh, record.dstLow));
    group.add(Sum.OCTETS, flow.getFwdOctets());
    group.add(Sum.PACKETS, flow.getFwdPackets());
    if (hasRoom(group)) {
      group.item(record.srcHigh, record.srcLow, flow.getSrcPort());
    } else {
      group.add(Sum.UNLISTED, 1);
    }
  }

  @Override
  long weight(Memory memory) {
    return memory.octets.newest();
  }

  @Override
  void judge(Memory memory, Evidence evidence, Limits.Source limits, Consumer<Finding> out) {
    Limits limit = limits.of(REASON);
    double floor = limit.get("bits_per_second");
    long after = memory.octets.begin(evidence);
    memory.packets.begin(evidence);
    if (after > 0) {
      memory.reflectors.clear();
      memory.hit = memory.hit && after == 1;
    }
    long octets = memory.octets.add(evidence, evidence.number(Sum.OCTETS));
    long packets = memory.packets.add(evidence, evidence.number(Sum.PACKETS));
    memory.seen += evidence.number(Sum.OCTETS);
    memory.reflectors.add(evidence, numbers(), evidence.number(Sum.UNLISTED));
    memory.until = Math.max(memory.until, evidence.until());
    double bits = 8 * Spans.rate(octets, evidence);
    if (bits < floor || memory.reflectors.distinct() < limit.get("reflectors")) {
      return;
    }
    if (!memory.hit) {
      memory.since = evidence.start();
      memory.seen = octets;
    }
    memory.hit = true;
    int port = memory.reflectors.mostFrequent().get(0);
    String text =
        String.format(
            Locale.ROOT,
            "%s gets %,d bit/s of answers that it did not ask for, from port %d of %s servers.",
            evidence.subject().named(),
            Math.round(bits),
            port,
            memory.reflectors.number());
    Map<String, Long> values =
        Map.of(
            "bits_per_second", Math.round(bits),
            "octets_of_ten_seconds", octets,
            "packets_of_ten_seconds", packets);
    String sql =
        "SELECT src, src_port, dst, dst_port, sum(octets) AS octets FROM v_records WHERE ("
            + evidence.subject().sql(false)
            + " OR "
            + evidence.subject().sql(true)
            + ") AND %s AND protocol_name = 'UDP' AND (src_port = "
            + port
            + " OR dst_port = "
            + port
            + ") GROUP BY src, src_port, dst, dst_port ORDER BY octets DESC, src LIMIT 100";
    Finding.Shown shown =
        memory.reflectors.shown(text, values, Map.of(evidence.probe(), memory.seen), sql);
    Finding.Degree degree = Finding.Degree.ofRate(bits, floor, 100 * floor);
    Subject host = evidence.subject();
    out.accept(new Finding(REASON, host, memory.since, evidence.until(), degree, shown));
  }
}
