package io.weir.jobs;

import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import io.weir.jobs.Trace.Event;
import io.weir.proto.ClosingRecord;
import io.weir.proto.Flow;
import io.weir.proto.FlowMessage;
import io.weir.proto.Prefix;
import io.weir.proto.Probe;
import io.weir.proto.RecordKind;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.stream.IntStream;

/**
 * The messages that came, added up: the flows of each probe and window, the batches of each
 * interval, and when each worker closed a window.
 */
final class Received {
  static final long WINDOW_MS = 30_000;
  private static final String NATION = "";

  /** How long after its end a window accepts late data. */
  static final long LATE_MS = 300_000;

  /** How far ahead of the clock windows are kept for sure: fifteen minutes, less one window. */
  static final long AHEAD_MS = 900_000 - WINDOW_MS;

  /** How far beyond the time at which the broker received it a closing record is believed. */
  private static final long CLOCK_MS = 60_000;

  record FlowKey(String src, int srcPort, String dst, int dstPort, int protocol) {
    /** A key that is the same for both directions. */
    String eitherWay() {
      String one = src + ":" + srcPort;
      String other = dst + ":" + dstPort;
      String first = one.compareTo(other) < 0 ? one : other;
      return first + " " + (first.equals(one) ? other : one) + " " + protocol;
    }

    @Override
    public String toString() {
      return src + ":" + srcPort + ">" + dst + ":" + dstPort + "/" + protocol;
    }
  }

  /** Sums of one flow in a window. */
  static final class Sum {
    long fwdPackets;
    long fwdOctets;
    long revPackets;
    long revOctets;
    long rate = 1;
    long fwdSyn;
    long revSyn;
    long revSynack;
    long fwdFin;
    long revFin;
    long fwdRst;
    long revRst;
    boolean guess = true;

    /** The part that came in time. */
    long sureOctets;

    long surePackets;

    /** When the flow was first seen in the window, ms from 1970. */
    long firstMs = Long.MAX_VALUE;

    long octets() {
      return fwdOctets + revOctets;
    }

    long packets() {
      return fwdPackets + revPackets;
    }
  }

  /** The flows that one probe saw in one window. */
  static final class Seen {
    final Map<FlowKey, Sum> flows = new LinkedHashMap<>();
    long overflowPackets;
    long overflowOctets;

    /** The part of the overflow that came in time. */
    long sureOverflowPackets;

    long sureOverflowOctets;

    /** Of all data, the part that came too late, or too early, for windows to guarantee it. */
    long lateOctets;

    boolean isLate;

    /** Messages that came after the window's end, or before its start. */
    long afterEnd;

    /** The number of the event with the last message. */
    int lastEvent;

    long octets() {
      return flows.values().stream().mapToLong(Sum::octets).sum() + overflowOctets;
    }
  }

  /** The data received for one interval of one worker. */
  static final class Part {
    long batches;
    long records;
    long packets;
    long octets;
    ClosingRecord closing;
    FlowMessage header;
    boolean several;
  }

  /**
   * A closing record: when it came, at the latest, by the time that windows follow; and up to which
   * time the jobs believe that its worker has closed windows.
   */
  private record Mark(long at, int event, long epoch, long sequence, long end, long until) {
    Mark(long at, int number, FlowMessage message, long until) {
      this(
          at,
          number,
          message.getEpoch(),
          message.getSequence(),
          message.getIntervalStartMs() + message.getIntervalMs(),
          until);
    }
  }

  /** The number of the event being read. */
  private int number;

  /** Whether the jobs stopped. */
  private boolean stops;

  private final Map<String, List<Mark>> marks = new HashMap<>();
  private final TreeMap<Long, TreeMap<String, Seen>> windows = new TreeMap<>();
  private final Map<String, String> sites = new TreeMap<>();
  private final Map<String, String> siteOfProbe = new TreeMap<>();
  private final Map<String, Integer> rankOfProbe = new TreeMap<>();

  final Map<String, Integer> workersOfProbe = new TreeMap<>();

  /** By probe, worker and start. */
  final Map<String, Part> intervals = new TreeMap<>();

  /** By probe with worker, and by epoch. */
  final Map<String, Map<Long, Set<Long>>> sequences = new HashMap<>();

  /** First and last start of the intervals of each run, by probe with worker, and by epoch. */
  private final Map<String, Map<Long, long[]>> spans = new HashMap<>();

  /** The rows of {@code flows}. */
  final List<String> flowRows = new ArrayList<>();

  /** The customers of prefixes. */
  final Map<String, Integer> customers = new TreeMap<>();

  final CounterOracle counters = new CounterOracle();
  final HealthOracle health = new HealthOracle();

  Received(List<Event> events) throws InvalidProtocolBufferException {
    for (Event event : events) {
      stops |= event.stop() != null;
      health.event(event);
    }
    List<Event> read = Reading.kept(Reading.of(events));
    long[] latest = StreamTime.latest(read, topic -> topic.startsWith("weir.flows."));
    for (; number < read.size(); number++) {
      if (read.get(number).message() != null) {
        message(read.get(number), latest[number]);
      }
    }
    counters.read(read);
  }

  private void message(Event event, long latest) throws InvalidProtocolBufferException {
    byte[] value = event.message().value();
    String topic = event.message().topic();
    if (topic.equals("weir.prefixes")) {
      prefix(Prefix.parseFrom(value));
    } else if (topic.equals("weir.probes")) {
      probe(Probe.parseFrom(value));
    } else if (topic.startsWith("weir.flows.")) {
      flows(event, Math.max(latest, event.message().appended()));
    }
  }

  /** The flows that each probe saw in each window. */
  TreeMap<Long, TreeMap<String, Seen>> windows() {
    return windows;
  }

  private void prefix(Prefix prefix) {
    // Schedules declare /16 only.
    String name = prefix.getPrefix().replaceAll("\\.0\\.0/16", ".");
    customers.put(name, prefix.getCustomerId());
    sites.put(name, prefix.getSite());
  }

  private void probe(Probe probe) {
    siteOfProbe.put(probe.getName(), probe.getSite());
    rankOfProbe.put(probe.getName(), probe.getRank());
  }

  /** Reads a message of flows, at this time by the windows' clock or earlier. */
  private void flows(Event event, long time) {
    FlowMessage message;
    try {
      message = FlowMessage.parseFrom(event.message().value());
    } catch (InvalidProtocolBufferException e) {
      return;
    }
    if (message.getMajor() != 1 || message.getBodyCase() == FlowMessage.BodyCase.BODY_NOT_SET) {
      return;
    }
    String worker = message.getProbe() + "/" + message.getWorker();
    Set<Long> seen =
        sequences
            .computeIfAbsent(worker, key -> new HashMap<>())
            .computeIfAbsent(message.getEpoch(), key -> new HashSet<>());
    if (!seen.add(message.getSequence())) {
      return;
    }
    long start = message.getIntervalStartMs();
    // A lost closing record before the first one that came is missing from the interval before.
    boolean follows = message.hasClosing() && !message.getClosing().getFirst();
    spans
        .computeIfAbsent(worker, key -> new HashMap<>())
        .merge(
            message.getEpoch(),
            new long[] {follows ? start - message.getIntervalMs() : start, start},
            (a, b) -> new long[] {Math.min(a[0], b[0]), Math.max(a[1], b[1])});
    health.message(event.at(event.message().appended()), message);
    String interval =
        "%s %d %s"
            .formatted(message.getProbe(), message.getWorker(), time(message.getIntervalStartMs()));
    Part part = intervals.computeIfAbsent(interval, key -> new Part());
    part.several |= part.header != null && part.header.getEpoch() != message.getEpoch();
    part.several |= part.closing != null && message.hasClosing();
    part.header = message;
    if (message.hasClosing()) {
      part.closing = message.getClosing();
      workersOfProbe.put(message.getProbe(), message.getClosing().getWorkers());
      long end =
          Math.min(
              message.getIntervalStartMs() + message.getIntervalMs(),
              event.message().appended() + CLOCK_MS);
      long until =
          message.getClosing().getLast()
              ? Math.floorDiv(end + WINDOW_MS - 1, WINDOW_MS) * WINDOW_MS
              : Math.floorDiv(end, WINDOW_MS) * WINDOW_MS;
      marks
          .computeIfAbsent(worker, key -> new ArrayList<>())
          .add(new Mark(time, number, message, until));
      return;
    }
    part.batches++;
    long window = Math.floorDiv(message.getIntervalStartMs(), WINDOW_MS) * WINDOW_MS;
    Seen into =
        windows
            .computeIfAbsent(window, key -> new TreeMap<>())
            .computeIfAbsent(message.getProbe(), key -> new Seen());
    boolean late = time >= window + WINDOW_MS + LATE_MS || isEarly(event, window);
    into.isLate |= late;
    into.lastEvent = number;
    into.afterEnd += event.at() >= window + WINDOW_MS || event.at() < window ? 1 : 0;
    for (Flow flow : message.getBatch().getFlowsList()) {
      part.records++;
      part.packets += flow.getFwdPackets() + flow.getRevPackets();
      part.octets += flow.getFwdOctets() + flow.getRevOctets();
      add(message, flow, into, late);
    }
  }

  /**
   * Whether a message came so long before its window that the window is not kept until its time
   * comes.
   */
  static boolean isEarly(Event event, long window) {
    return event.message().appended() < window - AHEAD_MS;
  }

  private void add(FlowMessage message, Flow flow, Seen into, boolean late) {
    long octets = flow.getFwdOctets() + flow.getRevOctets();
    long packets = flow.getFwdPackets() + flow.getRevPackets();
    into.lateOctets += late ? octets : 0;
    flowRows.add(
        "%s %d %d %s %d,%d,%d,%d"
            .formatted(
                message.getProbe(),
                message.getWorker(),
                message.getIntervalStartMs() / 1000,
                flow.getRecordKind() == RecordKind.RECORD_KIND_OVERFLOW ? "overflow" : key(flow),
                flow.getFwdPackets(),
                flow.getFwdOctets(),
                flow.getRevPackets(),
                flow.getRevOctets()));
    if (flow.getRecordKind() == RecordKind.RECORD_KIND_OVERFLOW) {
      into.overflowPackets += packets;
      into.overflowOctets += octets;
      into.sureOverflowPackets += late ? 0 : packets;
      into.sureOverflowOctets += late ? 0 : octets;
      return;
    }
    Sum sum = into.flows.computeIfAbsent(key(flow), key -> new Sum());
    sum.surePackets += late ? 0 : packets;
    sum.sureOctets += late ? 0 : octets;
    sum.fwdPackets += flow.getFwdPackets();
    sum.fwdOctets += flow.getFwdOctets();
    sum.revPackets += flow.getRevPackets();
    sum.revOctets += flow.getRevOctets();
    sum.fwdSyn += flow.getFwdTcpSyn();
    sum.revSyn += flow.getRevTcpSyn();
    sum.revSynack += flow.getRevTcpSynack();
    sum.fwdFin += flow.getFwdTcpFin();
    sum.revFin += flow.getRevTcpFin();
    sum.fwdRst += flow.getFwdTcpRst();
    sum.revRst += flow.getRevTcpRst();
    sum.guess &= flow.getInitiatorGuess();
    sum.firstMs = Math.min(sum.firstMs, message.getIntervalStartMs() + flow.getFirstSeenOffsetMs());
    sum.rate = Math.max(sum.rate, flow.getSamplingRate());
  }

  private static FlowKey key(Flow flow) {
    return new FlowKey(
        address(flow.getSrcAddr()),
        flow.getSrcPort(),
        address(flow.getDstAddr()),
        flow.getDstPort(),
        flow.getProtocol());
  }

  private static String address(ByteString octets) {
    try {
      return InetAddress.getByAddress(octets.toByteArray()).getHostAddress();
    } catch (UnknownHostException e) {
      throw new IllegalArgumentException(e);
    }
  }

  static String time(long ms) {
    return Trace.seconds(ms);
  }

  private <T> T of(Map<String, T> byPrefix, String address, T otherwise) {
    for (Map.Entry<String, T> entry : byPrefix.entrySet()) {
      if (address.startsWith(entry.getKey())) {
        return entry.getValue();
      }
    }
    return otherwise;
  }

  /** The customer of an address, 0 if none. */
  int customer(String address) {
    return of(customers, address, 0);
  }

  // ---- comparing ----
  /**
   * The scopes of a window: their flows by name, with overflow records and the omitted
   * observations.
   */
  record Scope(
      int kind, String probe, int customer, Map<FlowKey, Sum> flows, long[] overflow, long twice) {
    String key(long window) {
      return "%s %d %s %d".formatted(time(window), kind, probe.isEmpty() ? "0" : probe, customer);
    }

    long octets() {
      return flows.values().stream().mapToLong(Sum::octets).sum() + overflow[1];
    }

    long packets() {
      return flows.values().stream().mapToLong(Sum::packets).sum() + overflow[0];
    }
  }

  List<Scope> scopes(Map<String, Seen> probes) {
    List<Scope> scopes = new ArrayList<>();
    long[] overflow = new long[2];
    long all = 0;
    for (Map.Entry<String, Seen> entry : probes.entrySet()) {
      Seen seen = entry.getValue();
      long[] own = {seen.overflowPackets, seen.overflowOctets};
      scopes.add(new Scope(1, entry.getKey(), 0, seen.flows, own, 0));
      overflow[0] += own[0];
      overflow[1] += own[1];
      all += seen.octets();
    }
    Map<FlowKey, Sum> nation = nation(probes);
    long counted = nation.values().stream().mapToLong(Sum::octets).sum() + overflow[1];
    scopes.add(new Scope(2, NATION, 0, nation, overflow, all - counted));
    for (int customer : new TreeSet<>(customers.values())) {
      Map<FlowKey, Sum> own = new LinkedHashMap<>();
      nation.forEach(
          (key, sum) -> {
            if (customer(key.src()) == customer || customer(key.dst()) == customer) {
              own.put(key, sum);
            }
          });
      if (!own.isEmpty()) {
        scopes.add(new Scope(3, NATION, customer, own, new long[2], 0));
      }
    }
    return scopes;
  }

  /** Octets and packets. */
  record Sums(long octets, long packets) {
    static final Sums NONE = new Sums(0, 0);

    Sums plus(Sums other) {
      return new Sums(octets + other.octets, packets + other.packets);
    }

    Sums min(Sums other) {
      return new Sums(Math.min(octets, other.octets), Math.min(packets, other.packets));
    }

    Sums max(Sums other) {
      return new Sums(Math.max(octets, other.octets), Math.max(packets, other.packets));
    }
  }

  /**
   * The least that a scope's window may have: what came in time; of a flow that several probes saw,
   * as the one saw it of which the least came in time.
   */
  Sums least(Scope scope, Map<String, Seen> probes) {
    Sums overflow =
        overflow(scope, probes, s -> new Sums(s.sureOverflowOctets, s.sureOverflowPackets));
    return observed(scope, probes, sum -> new Sums(sum.sureOctets, sum.surePackets))
        .values()
        .stream()
        .map(by -> by.values().stream().reduce(Sums::min).orElseThrow())
        .reduce(overflow, Sums::plus);
  }

  /** The most that it may have: all that came. */
  Sums most(Scope scope, Map<String, Seen> probes) {
    Sums overflow = overflow(scope, probes, s -> new Sums(s.overflowOctets, s.overflowPackets));
    return observed(scope, probes, sum -> new Sums(sum.octets(), sum.packets())).values().stream()
        .map(by -> by.values().stream().reduce(Sums::max).orElseThrow())
        .reduce(overflow, Sums::plus);
  }

  /** Whether several probes saw the same flow. */
  boolean isShared(Map<String, Seen> probes) {
    Set<String> seen = new HashSet<>();
    return probes.values().stream()
        .flatMap(one -> one.flows.keySet().stream().map(FlowKey::eitherWay).distinct())
        .anyMatch(flow -> !seen.add(flow));
  }

  private static Sums overflow(Scope scope, Map<String, Seen> probes, Function<Seen, Sums> of) {
    return probes.entrySet().stream()
        .filter(entry -> scope.kind() == 2 || entry.getKey().equals(scope.probe()))
        .map(entry -> of.apply(entry.getValue()))
        .reduce(Sums.NONE, Sums::plus);
  }

  /** The sums of a scope's flows, whichever way, by probe. */
  private Map<String, Map<String, Sums>> observed(
      Scope scope, Map<String, Seen> probes, Function<Sum, Sums> of) {
    Map<String, Map<String, Sums>> observed = new HashMap<>();
    probes.forEach(
        (probe, seen) ->
            seen.flows.forEach(
                (key, sum) -> {
                  boolean whose =
                      scope.kind() != 3
                          || customer(key.src()) == scope.customer()
                          || customer(key.dst()) == scope.customer();
                  if (whose && (scope.kind() != 1 || probe.equals(scope.probe()))) {
                    observed
                        .computeIfAbsent(key.eitherWay(), either -> new TreeMap<>())
                        .merge(probe, of.apply(sum), Sums::plus);
                  }
                }));
    return observed;
  }

  /** Each flow, as the preferred probe saw it. */
  private Map<FlowKey, Sum> nation(Map<String, Seen> probes) {
    record Observation(String probe, FlowKey key, long rate) {}
    Map<String, List<Observation>> observed = new LinkedHashMap<>();
    probes.forEach(
        (probe, seen) ->
            seen.flows.forEach(
                (key, sum) ->
                    observed
                        .computeIfAbsent(key.eitherWay(), either -> new ArrayList<>())
                        .add(new Observation(probe, key, sum.rate))));
    Comparator<Observation> order =
        Comparator.comparingLong(Observation::rate)
            .thenComparing(o -> !site(o.key().src()).equals(siteOfProbe.get(o.probe())))
            .thenComparing(o -> !site(o.key().dst()).equals(siteOfProbe.get(o.probe())))
            .thenComparing(o -> rankOfProbe.get(o.probe()))
            .thenComparing(Observation::probe);
    Map<FlowKey, Sum> nation = new LinkedHashMap<>();
    observed.forEach(
        (either, all) -> {
          String from = all.stream().min(order).orElseThrow().probe();
          for (Observation one : all) {
            if (one.probe().equals(from)) {
              nation.put(one.key(), probes.get(from).flows.get(one.key()));
            }
          }
        });
    return nation;
  }

  private String site(String address) {
    return of(sites, address, "none");
  }

  /**
   * Whether a probe's window and the previous one were closed in time, after all of their data:
   * then there is a single version, with all of the data.
   */
  boolean isSaidOnce(long window, String probe) {
    if (stops) {
      return false;
    }
    for (long start : new long[] {window - WINDOW_MS, window}) {
      Seen seen = windows.getOrDefault(start, new TreeMap<>()).get(probe);
      if (seen == null) {
        continue;
      }
      long end = start + WINDOW_MS;
      for (int worker = 0; worker < workersOfProbe.getOrDefault(probe, 1); worker++) {
        List<Mark> own = marks.getOrDefault(probe + "/" + worker, List.of());
        boolean closed =
            own.stream()
                .anyMatch(
                    mark ->
                        mark.until() >= end
                            && mark.at() < end + 10_000
                            && mark.event() > seen.lastEvent);
        boolean before =
            own.stream().anyMatch(mark -> mark.until() >= end && mark.event() < seen.lastEvent);
        if (!closed || before || complete(probe, end) == null) {
          return false;
        }
      }
    }
    return true;
  }

  /**
   * Whether an interval lies within another run of the worker: a clock that stepped told both runs
   * its time, and the other one may have lost its closing record, too.
   */
  boolean isWithinAnotherRun(FlowMessage header) {
    long start = header.getIntervalStartMs();
    return spans.get(header.getProbe() + "/" + header.getWorker()).entrySet().stream()
        .filter(run -> run.getKey() != header.getEpoch())
        .anyMatch(run -> run.getValue()[0] <= start && start <= run.getValue()[1]);
  }

  /** The number of messages that came after the end of a window. */
  long afterEnd(long window) {
    return windows.getOrDefault(window, new TreeMap<>()).values().stream()
        .mapToLong(seen -> seen.afterEnd)
        .sum();
  }

  /** Whether all workers of a probe closed the window; null if the schedule leaves it open. */
  Boolean complete(String probe, long end) {
    Boolean complete = true;
    for (int worker = 0; worker < workersOfProbe.getOrDefault(probe, 1); worker++) {
      List<Mark> marks = this.marks.getOrDefault(probe + "/" + worker, List.of());
      if (marks.stream().map(Mark::epoch).distinct().count() > 1 || goesBack(marks)) {
        return null;
      }
      boolean ever = marks.stream().anyMatch(mark -> mark.until() >= end);
      boolean inTime =
          marks.stream().anyMatch(mark -> mark.until() >= end && mark.at() < end + LATE_MS);
      if (ever && !inTime) {
        return null;
      }
      complete &= inTime;
    }
    return complete;
  }

  /** Whether a later closing record is of an earlier interval. */
  private static boolean goesBack(List<Mark> marks) {
    List<Long> ends =
        marks.stream()
            .sorted(Comparator.comparing(Mark::epoch).thenComparing(Mark::sequence))
            .map(Mark::end)
            .toList();
    return !ends.equals(ends.stream().sorted().toList());
  }

  /** Whether some agent's clock was set back: it may close a window several times. */
  boolean isAnySetBack() {
    return marks.values().stream().anyMatch(Received::goesBack);
  }

  /** The most probes of a scope that can have closed the windows up to {@code end}. */
  long closed(Scope scope, long end) {
    return workersOfProbe.keySet().stream()
        .filter(probe -> scope.kind() != 1 || probe.equals(scope.probe()))
        .filter(probe -> isClosed(probe, end))
        .count();
  }

  private boolean isClosed(String probe, long end) {
    int workers = workersOfProbe.get(probe);
    return IntStream.range(0, workers)
        .mapToObj(worker -> marks.getOrDefault(probe + "/" + worker, List.of()))
        .allMatch(marks -> marks.stream().anyMatch(mark -> mark.until() >= end));
  }
}
