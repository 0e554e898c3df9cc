package io.weir.jobs.detect;

import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/**
 * Hosts, prefixes and customers that get SYNs whose senders complete no handshake. The rate of
 * these is compared with a floor, and, by a cumulative sum (CUSUM), with the subject's own past:
 * the sum grows by what exceeds the mean and half a standard deviation, and must reach five
 * standard deviations. More handshakes than such SYNs are a crowd, not a flood.
 */
final class SynFlood extends Detector<SynFlood.Memory> {
  static final Reason REASON =
      new Reason(
          "syn_flood",
          "T1498.001",
          60_000,
          List.of(
              floor(Subject.Kind.HOST, 100),
              floor(Subject.Kind.PREFIX, 300),
              floor(Subject.Kind.CUSTOMER, 1000),
              new Parameter(
                  "senders",
                  10,
                  1,
                  Peers.MOST,
                  "senders that a flood on a prefix or customer has at least: one alone is a scan")));

  private static final double DRIFT = .5;
  private static final double DECISION = 5;

  /** Weight of the newest span in the mean. */
  private static final double NEWEST = .1;

  /** Spans without any such SYN after which the past counts no more. */
  private static final long FORGOTTEN = 360;

  /** The numbers of a group. */
  private enum Sum {
    INCOMPLETE,
    COMPLETE,

    /** SYNs whose senders are not items. */
    UNLISTED,

    /** Of a prefix or customer: the SYNs to the host of it that gets most of them. */
    TO_ONE,

    /** Of a host: its customer. */
    CUSTOMER
  }

  /** What is remembered of a subject. */
  static final class Memory {
    private final Spans incomplete = new Spans();
    private final Spans complete = new Spans();
    private final Peers peers = new Peers();
    private double mean;
    private double variance;
    private double sum;

    /** Of a prefix or customer: SYNs to one of its hosts in the newest span. */
    private long toOne;

    /** SYNs a second in the newest span. */
    private double last;

    private boolean flooded;

    /** Such SYNs since the flood began. */
    private long seen;

    private long since;
    private long until;
  }

  private static Parameter floor(Subject.Kind kind, int value) {
    String comment = "SYNs without a handshake in a second, to a %s".formatted(kind.word());
    return new Parameter(kind.word() + "_per_second", value, 1, 1e9, comment);
  }

  SynFlood() {
    super(
        2,
        5,
        3,
        10,
        true,
        new Remembers<>(of -> of.synFloods, Memory::new, memory -> memory.until));
  }

  @Override
  List<Reason> reasons() {
    return List.of(REASON);
  }

  @Override
  void see(Look record, Gathered into) {
    long syns = record.flow.getFwdTcpSyn();
    if (syns == 0 || record.protocol != Look.TCP || record.oneWay) {
      return;
    }
    if (record.overflowKey == 0) {
      if (record.isHandshakeComplete()) {
        into.handshake(record.dstHigh, record.dstLow, record.dstCustomer);
        return;
      }
      if (!record.isSettled()) {
        return;
      }
    } else if (record.overflowKey == 2) {
      // Each complete handshake has two other packets of its initiator at least.
      long others = record.flow.getFwdPackets() - syns - record.flow.getFwdTcpRst();
      syns -= Math.min(syns, Math.max(0, others) / 2);
    } else {
      return; // its destination is unknown
    }
    add(record, syns, Subject.host(record.dstHigh, record.dstLow), into);
    add(record, syns, Subject.prefix(record.dstHigh, record.dstLow), into);
    if (record.dstCustomer != 0) {
      add(record, syns, Subject.customer(record.dstCustomer), into);
    }
  }

  private void add(Look record, long syns, Subject subject, Gathered into) {
    if (syns == 0) {
      return;
    }
    Gathered.Group group = into.of(this, subject);
    group.add(Sum.INCOMPLETE, syns);
    group.atLeast(Sum.CUSTOMER, record.dstCustomer);
    if (hasRoom(group)) {
      group.item(record.srcHigh, record.srcLow, record.flow.getDstPort());
    } else {
      group.add(Sum.UNLISTED, 1);
    }
  }

  @Override
  void complete(Gathered into) {
    into.each(
        this,
        (subject, group) -> {
          if (subject.kind() == Subject.Kind.HOST) {
            long syns = group.number(Sum.INCOMPLETE);
            toOne(into, Subject.prefix(subject.high(), subject.low()), syns);
            toOne(into, Subject.customer((int) group.number(Sum.CUSTOMER)), syns);
          }
        });
    into.eachHandshake(
        (high, low, customer) -> {
          count(into, Subject.host(high, low));
          count(into, Subject.prefix(high, low));
          if (customer != 0) {
            count(into, Subject.customer(customer));
          }
        });
  }

  private void toOne(Gathered into, Subject of, long syns) {
    Gathered.Group group = into.known(this, of);
    if (group != null) {
      group.atLeast(Sum.TO_ONE, syns);
    }
  }

  private void count(Gathered into, Subject subject) {
    Gathered.Group group = into.known(this, subject);
    if (group != null) {
      group.add(Sum.COMPLETE, 1);
    }
  }

  @Override
  long weight(Memory memory) {
    return memory.incomplete.newest() + Math.round(memory.mean * Spans.SPAN_MS / 1000);
  }

  @Override
  void judge(Memory memory, Evidence evidence, Limits.Source limits, Consumer<Finding> out) {
    Limits limit = limits.of(REASON);
    long after = memory.incomplete.begin(evidence);
    memory.complete.begin(evidence);
    if (after > 0) {
      end(memory, after);
    }
    long syns = memory.incomplete.add(evidence, evidence.number(Sum.INCOMPLETE));
    long handshakes = memory.complete.add(evidence, evidence.number(Sum.COMPLETE));
    memory.seen += evidence.number(Sum.INCOMPLETE);
    memory.toOne += evidence.number(Sum.TO_ONE);
    memory.peers.add(evidence, numbers(), evidence.number(Sum.UNLISTED));
    double rate = Spans.rate(syns, evidence);
    double deviation = Math.sqrt(memory.variance);
    double floor = limit.get(evidence.subject().kind().word() + "_per_second");
    boolean several =
        evidence.subject().kind() == Subject.Kind.HOST
            || (memory.peers.distinct() >= limit.get("senders") && 2 * memory.toOne < syns);
    boolean flood =
        rate >= floor
            && memory.sum + rate - memory.mean - DRIFT * deviation >= DECISION * deviation
            && syns >= handshakes
            && several;
    memory.last = Math.max(memory.last, rate);
    memory.until = Math.max(memory.until, evidence.until());
    if (!flood) {
      return;
    }
    if (!memory.flooded) {
      memory.since = evidence.start();
      memory.seen = syns;
    }
    memory.flooded = true;
    out.accept(
        new Finding(
            REASON,
            evidence.subject(),
            memory.since,
            evidence.until(),
            Finding.Degree.ofRate(rate, Math.max(floor, memory.mean), 10 * floor),
            memory.peers.shown(
                text(evidence.subject(), rate, memory.peers),
                Map.of(
                    "syns_per_second", Math.round(rate),
                    "syns_of_ten_seconds", syns,
                    "handshakes_of_ten_seconds", handshakes),
                Map.of(evidence.probe(), memory.seen),
                sql(evidence.subject()))));
  }

  private static String text(Subject subject, double rate, Peers peers) {
    return "%s gets %,d SYNs a second whose senders complete no handshake, on port %d, from %s senders."
        .formatted(subject.named(), Math.round(rate), peers.mostFrequent().get(0), peers.number());
  }

  private static String sql(Subject subject) {
    return "SELECT src, dst, dst_port, sum(fwd_tcp_syn) AS syns FROM v_records WHERE "
        + subject.sql(false)
        + " AND %s AND fwd_tcp_syn > 0 AND fwd_packets <= fwd_tcp_syn + 1"
        + " GROUP BY src, dst, dst_port ORDER BY syns DESC, src LIMIT 100";
  }

  /** Ends the newest span: it becomes the past, unless it was a flood. */
  private static void end(Memory memory, long spans) {
    if (spans > FORGOTTEN) {
      memory.mean = 0;
      memory.variance = 0;
      memory.sum = 0;
    } else {
      double rate = memory.last;
      memory.sum =
          Math.max(0, memory.sum + rate - memory.mean - DRIFT * Math.sqrt(memory.variance));
      if (!memory.flooded) {
        learn(memory, rate);
      }
      for (long quiet = 1; quiet < spans; quiet++) {
        memory.sum = Math.max(0, memory.sum - memory.mean);
        learn(memory, 0);
      }
    }
    memory.flooded = memory.flooded && spans == 1;
    memory.last = 0;
    memory.toOne = 0;
    memory.peers.clear();
  }

  private static void learn(Memory memory, double rate) {
    double off = rate - memory.mean;
    memory.mean += NEWEST * off;
    memory.variance = (1 - NEWEST) * (memory.variance + NEWEST * off * off);
  }
}
