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
import java.util.Arrays;
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
import java.util.function.ToLongFunction;

/**
 * The expected contents of the tables once all input is processed, computed by plain sums over the
 * received messages: written from the promises in the documents ({@code
 * docs/explanation/windows.md}, {@code design.md}), without any of the jobs' own code.
 *
 * <p>A record that came within {@link #LATE_MS} after its window's end is in the window's rows. A
 * record that came later may or may not be in them: rows of its window lie between the two sums.
 */
final class Oracle {
  static final long WINDOW_MS = 30_000;
  static final long MIX_MS = 60_000;
  static final int TOP = 3;

  /** Dimensions of mixes: total, application, AS, country, customer, AS with application. */
  private static final int DIMENSIONS = 6;

  /** How long after its end a window accepts late data. */
  static final long LATE_MS = 300_000;

  private static final String NATION = "";

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

    /** Of all data, the part that came too late for windows to guarantee it. */
    long lateOctets;

    boolean isLate;

    /** Messages that came after the window's end. */
    long afterEnd;

    /** The number of the event with the last message. */
    int lastEvent;

    long octets() {
      return flows.values().stream().mapToLong(Sum::octets).sum() + overflowOctets;
    }
  }

  /** Sums of a host or a port. */
  private static final class Ends {
    long inOctets;
    long inPackets;
    long outOctets;
    long outPackets;
    final Set<FlowKey> flows = new HashSet<>();
  }

  /** The data received for one interval of one worker. */
  private static final class Part {
    long batches;
    long records;
    long packets;
    long octets;
    ClosingRecord closing;
    FlowMessage header;
    boolean several;
  }

  /** A closing record: when it came, and up to which time its worker has closed windows. */
  private record Mark(long at, int event, long epoch, long until) {}

  /** The number of the event being read. */
  private int number;

  /** Whether the jobs stopped. */
  private boolean stops;

  private final Map<String, List<Mark>> marks = new HashMap<>();
  private final Map<String, Integer> workersOfProbe = new TreeMap<>();
  private final TreeMap<Long, TreeMap<String, Seen>> windows = new TreeMap<>();
  private final Map<String, Part> intervals = new TreeMap<>();
  private final Map<String, Map<Long, Set<Long>>> sequences = new HashMap<>();
  private final List<String> flowRows = new ArrayList<>();
  private final Map<String, Integer> customers = new TreeMap<>();
  private final Map<String, String> sites = new TreeMap<>();
  private final Map<String, String> siteOfProbe = new TreeMap<>();
  private final Map<String, Integer> rankOfProbe = new TreeMap<>();
  private final CounterOracle counters = new CounterOracle();
  private final HealthOracle health = new HealthOracle();
  private final List<String> differences = new ArrayList<>();

  Oracle(List<Event> events) throws InvalidProtocolBufferException {
    for (Event event : events) {
      number++;
      stops |= event.stop() != null;
      health.event(event);
      if (event.message() != null) {
        byte[] value = event.message().value();
        switch (event.message().topic()) {
          case "weir.prefixes" -> prefix(Prefix.parseFrom(value));
          case "weir.probes" -> probe(Probe.parseFrom(value));
          default -> {
            if (event.message().topic().startsWith("weir.counters.")) {
              counters.message(event);
            } else {
              message(event);
            }
          }
        }
      }
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

  private void message(Event event) {
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
    health.message(event, message);
    String interval =
        "%s %d %s"
            .formatted(message.getProbe(), message.getWorker(), time(message.getIntervalStartMs()));
    Part part = intervals.computeIfAbsent(interval, key -> new Part());
    part.several |= part.header != null && part.header.getEpoch() != message.getEpoch();
    part.header = message;
    if (message.hasClosing()) {
      part.closing = message.getClosing();
      workersOfProbe.put(message.getProbe(), message.getClosing().getWorkers());
      long end = message.getIntervalStartMs() + message.getIntervalMs();
      long until =
          message.getClosing().getLast()
              ? Math.floorDiv(end + WINDOW_MS - 1, WINDOW_MS) * WINDOW_MS
              : Math.floorDiv(end, WINDOW_MS) * WINDOW_MS;
      marks
          .computeIfAbsent(worker, key -> new ArrayList<>())
          .add(new Mark(event.at(), number, message.getEpoch(), until));
      return;
    }
    part.batches++;
    long window = Math.floorDiv(message.getIntervalStartMs(), WINDOW_MS) * WINDOW_MS;
    Seen into =
        windows
            .computeIfAbsent(window, key -> new TreeMap<>())
            .computeIfAbsent(message.getProbe(), key -> new Seen());
    // Data that arrives more than LATE_MS before its window is kept only for LATE_MS, and may be
    // gone when the window comes.
    boolean late = event.at() >= window + WINDOW_MS + LATE_MS || event.at() < window - LATE_MS;
    into.isLate |= late;
    into.lastEvent = number;
    into.afterEnd += event.at() >= window + WINDOW_MS ? 1 : 0;
    for (Flow flow : message.getBatch().getFlowsList()) {
      part.records++;
      part.packets += flow.getFwdPackets() + flow.getRevPackets();
      part.octets += flow.getFwdOctets() + flow.getRevOctets();
      add(message, flow, into, late);
    }
  }

  private void add(FlowMessage message, Flow flow, Seen into, boolean late) {
    long octets = flow.getFwdOctets() + flow.getRevOctets();
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
      into.overflowPackets += flow.getFwdPackets() + flow.getRevPackets();
      into.overflowOctets += octets;
      return;
    }
    Sum sum = into.flows.computeIfAbsent(key(flow), key -> new Sum());
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

  private int customer(String address) {
    return of(customers, address, 0);
  }

  // ---- comparing ----

  /** The differences between a job's rows and the expected ones. */
  List<String> differences(String job, TraceJobs.Outcome outcome) {
    differences.clear();
    same(job + ": states kept in the end", outcome.kept(), 0);
    List<String> lines = outcome.lines();
    switch (job) {
      case "ingest" -> {
        flows(lines);
        ledger(lines);
      }
      case "topn" -> topn(lines);
      case "mixes" -> mixes(lines);
      case "filters" -> counters.check(this, lines);
      case "health" -> health.check(this, lines);
      case "indicators" ->
          new IndicatorOracle(this)
              .check(
                  newest(
                      lines, "top_indicators", "ts", "scope", "probe", "customer", "list", "rank"));
      default -> throw new IllegalArgumentException(job);
    }
    return List.copyOf(differences);
  }

  /** A row as names and values; null if it belongs to another table. */
  static Map<String, String> row(String line, String table) {
    if (!line.startsWith(table + " ")) {
      return null;
    }
    Map<String, String> row = new HashMap<>();
    for (String word : line.substring(table.length() + 1).split(" ")) {
      int at = word.indexOf('=');
      row.put(word.substring(0, at), word.substring(at + 1));
    }
    return row;
  }

  static long number(Map<String, String> row, String column) {
    return Long.parseLong(row.getOrDefault(column, "0"));
  }

  static String text(Map<String, String> row, String... columns) {
    StringBuilder text = new StringBuilder();
    for (String column : columns) {
      text.append(text.isEmpty() ? "" : " ").append(row.getOrDefault(column, "0"));
    }
    return text.toString();
  }

  /** The newest version of each row of a table, by key; among equal versions, the first. */
  static Map<String, Map<String, String>> newest(List<String> lines, String table, String... key) {
    Map<String, Map<String, String>> newest = new TreeMap<>();
    for (String line : lines) {
      Map<String, String> row = row(line, table);
      if (row != null) {
        newest.merge(
            text(row, key), row, (a, b) -> number(b, "version") > number(a, "version") ? b : a);
      }
    }
    return newest;
  }

  void same(String what, Object had, Object wanted) {
    if (!had.equals(wanted)) {
      differences.add(what + ": " + had + " is to be " + wanted);
    }
  }

  private void flows(List<String> lines) {
    List<String> stored = new ArrayList<>();
    for (String line : lines) {
      Map<String, String> row = row(line, "flows");
      if (row != null) {
        FlowKey key = flowKey(row);
        stored.add(
            "%s %d %s %s %d,%d,%d,%d"
                .formatted(
                    row.get("probe"),
                    number(row, "worker"),
                    row.get("ts"),
                    row.containsKey("overflow_key") || row.containsKey("record_kind")
                        ? "overflow"
                        : key,
                    number(row, "fwd_packets"),
                    number(row, "fwd_octets"),
                    number(row, "rev_packets"),
                    number(row, "rev_octets")));
      }
    }
    List<String> wanted = new ArrayList<>(flowRows);
    wanted.sort(null);
    stored.sort(null);
    if (!stored.equals(wanted)) {
      List<String> missing = new ArrayList<>(wanted);
      stored.forEach(missing::remove);
      List<String> more = new ArrayList<>(stored);
      wanted.forEach(more::remove);
      differences.add("flows: not stored " + missing + ", more than came " + more);
    }
  }

  private void ledger(List<String> lines) {
    Map<String, Map<String, String>> rows = newest(lines, "ledger", "probe", "worker", "ts");
    intervals.forEach(
        (key, part) -> {
          Map<String, String> row = rows.get(key);
          if (row == null) {
            differences.add("ledger " + key + ": no row");
            return;
          }
          same(
              "ledger " + key + " received_batches", number(row, "received_batches"), part.batches);
          same(
              "ledger " + key + " received_records", number(row, "received_records"), part.records);
          same(
              "ledger " + key + " received_packets", number(row, "received_packets"), part.packets);
          same("ledger " + key + " received_octets", number(row, "received_octets"), part.octets);
          if (part.closing != null && !part.several) {
            Map<Long, Set<Long>> worker =
                sequences.get(key.split(" ")[0] + "/" + key.split(" ")[1]);
            Set<Long> came = worker.get(part.header.getEpoch());
            long first = part.closing.getFirstSequence();
            long missing = 0;
            for (int i = 0; i < part.closing.getBatches(); i++) {
              missing += came.contains(first + i) ? 0 : 1;
            }
            same("ledger " + key + " missing_batches", number(row, "missing_batches"), missing);
            same(
                "ledger " + key + " published_records",
                number(row, "published_records"),
                part.closing.getRecords());
            same(
                "ledger " + key + " flow_packets",
                number(row, "flow_packets"),
                part.closing.getInterval().getInFlowRecords().getPackets());
            same("ledger " + key + " state", row.get("state"), missing == 0 ? "1" : "2");
          }
        });
  }

  // ---- windows ----

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

  private void topn(List<String> lines) {
    String[] flowKey = {"ts", "scope", "probe", "customer", "list", "rank"};
    Map<String, Map<String, String>> flows = newest(lines, "top_flows", flowKey);
    Map<String, Map<String, String>> talkers = newest(lines, "top_talkers", flowKey);
    flows.values().removeIf(row -> number(row, "packets") == 0);
    talkers.values().removeIf(row -> number(row, "packets") == 0);
    Set<String> known = new TreeSet<>();
    windows.forEach(
        (window, probes) -> {
          boolean anyLate = probes.values().stream().anyMatch(seen -> seen.isLate);
          for (Scope scope : scopes(probes)) {
            known.add(scope.key(window));
            Seen own = probes.get(scope.probe());
            if ((own == null ? anyLate : own.isLate) || isCoarse(flows, scope.key(window))) {
              bounds(window, scope, own, probes, flows);
            } else {
              reported(window, scope, flows, own);
              flowLists(window, scope, flows);
              talkerLists(window, scope, talkers);
            }
          }
        });
    for (Map<String, Map<String, String>> table : List.of(flows, talkers)) {
      for (Map<String, String> row : table.values()) {
        String key = text(row, "ts", "scope", "probe", "customer");
        if (!known.contains(key)) {
          differences.add("a row of nothing that came: " + row);
        }
      }
    }
  }

  /**
   * Checks that a probe's rows show that all of its workers have closed the window, if they have,
   * and that a window's rows are not rewritten needlessly.
   */
  private void reported(long window, Scope scope, Map<String, Map<String, String>> rows, Seen own) {
    Map<String, String> first = rows.get(scope.key(window) + " 1 1");
    if (first == null) {
      return;
    }
    long end = window + WINDOW_MS;
    if (own != null) {
      Boolean complete = complete(scope.probe(), end);
      if (complete != null) {
        same(
            "window " + scope.key(window) + " probes_reported",
            number(first, "probes_reported"),
            complete ? 1L : 0L);
      }
    }
    if (own != null && isSaidOnce(window, scope.probe())) {
      same("window " + scope.key(window) + " version", number(first, "version"), 1L);
    }
    long changes = workersOfProbe.size() + afterEnd(window) + afterEnd(window - WINDOW_MS);
    if (number(first, "version") > 1 + changes) {
      differences.add(
          "window "
              + scope.key(window)
              + ": version "
              + first.get("version")
              + " after "
              + changes);
    }
  }

  /**
   * Whether a probe's window and the previous one were closed in time, after all of their data:
   * then there is a single version, with all of the data.
   */
  private boolean isSaidOnce(long window, String probe) {
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

  private long afterEnd(long window) {
    return windows.getOrDefault(window, new TreeMap<>()).values().stream()
        .mapToLong(seen -> seen.afterEnd)
        .sum();
  }

  /** Whether all workers of a probe closed the window; null if the schedule leaves it open. */
  private Boolean complete(String probe, long end) {
    Boolean complete = true;
    for (int worker = 0; worker < workersOfProbe.getOrDefault(probe, 1); worker++) {
      List<Mark> marks = this.marks.getOrDefault(probe + "/" + worker, List.of());
      if (marks.stream().map(Mark::epoch).distinct().count() > 1) {
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

  /** Whether the rows state that they are inexact, because memory was insufficient. */
  private static boolean isCoarse(Map<String, Map<String, String>> rows, String scope) {
    Map<String, String> first = rows.get(scope + " 1 1");
    return first != null && number(first, "error_octets") > 0;
  }

  /**
   * Checks rows of a window with late data, or inexact rows: their values must lie between the
   * required minimum and the total.
   */
  private void bounds(
      long window,
      Scope scope,
      Seen own,
      Map<String, Seen> probes,
      Map<String, Map<String, String>> rows) {
    if (scope.kind() == 3) {
      return;
    }
    long late =
        own != null
            ? own.lateOctets
            : probes.values().stream().mapToLong(seen -> seen.lateOctets).sum();
    long all = scope.octets() + scope.twice();
    Map<String, String> row = rows.get(scope.key(window) + " 1 1");
    boolean inLists = row != null;
    if (!inLists) {
      if (all > late && !scope.flows().isEmpty() && late == 0) {
        differences.add("window " + scope.key(window) + ": no rows");
      }
      return;
    }
    long had = number(row, "window_octets") + number(row, "duplicate_octets");
    if (had < all - late || had > all) {
      differences.add(
          "window %s: %d octets are to be between %d and %d"
              .formatted(scope.key(window), had, all - late, all));
    }
  }

  private static boolean isOf(int list, int protocol) {
    return switch ((list - 1) / 2) {
      case 0 -> true;
      case 1 -> protocol == 6;
      case 2 -> protocol == 17;
      default -> protocol == 1 || protocol == 58;
    };
  }

  /** The rest of a row that is at its expected rank. */
  interface Rest<K> {
    void check(String where, K key, Map<String, String> row);
  }

  /**
   * Checks that the ranks of a list hold the largest values, each with a different key.
   *
   * @param place of the list in {@code rows}: window, scope, probe, customer and list
   * @param values of everything that may be listed, except 0
   */
  <K> void list(
      String table,
      String place,
      Map<String, Map<String, String>> rows,
      Map<K, Long> values,
      Function<Map<String, String>, K> keyOf,
      Rest<K> rest) {
    List<Long> best =
        values.values().stream()
            .filter(value -> value > 0)
            .sorted(Comparator.reverseOrder())
            .limit(TOP)
            .toList();
    Set<K> listed = new HashSet<>();
    for (int rank = 1; rank <= TOP; rank++) {
      String where = table + " " + place + " rank " + rank;
      Map<String, String> row = rows.get(place + " " + rank);
      if (rank > best.size()) {
        if (row != null) {
          differences.add(where + ": is to be nothing, not " + row);
        }
        continue;
      }
      if (row == null) {
        differences.add(where + ": nothing, is to have " + best.get(rank - 1));
        continue;
      }
      K key = keyOf.apply(row);
      if (!values.containsKey(key) || !listed.add(key)) {
        differences.add(where + ": there is no such one, or twice: " + row);
        continue;
      }
      same(where, values.get(key), best.get(rank - 1));
      rest.check(where, key, row);
    }
  }

  private void flowLists(long window, Scope scope, Map<String, Map<String, String>> rows) {
    for (int list = 1; list <= 8; list++) {
      int number = list;
      Map<FlowKey, Long> values = new HashMap<>();
      scope
          .flows()
          .forEach(
              (key, sum) -> {
                if (isOf(number, key.protocol())) {
                  values.put(key, number % 2 == 1 ? sum.octets() : sum.packets());
                }
              });
      list(
          "top_flows",
          scope.key(window) + " " + list,
          rows,
          values,
          Oracle::flowKey,
          (where, key, row) -> flowRow(where, scope, key, row));
    }
  }

  private static FlowKey flowKey(Map<String, String> row) {
    return new FlowKey(
        row.getOrDefault("src_addr", ""),
        (int) number(row, "src_port"),
        row.getOrDefault("dst_addr", ""),
        (int) number(row, "dst_port"),
        (int) number(row, "protocol"));
  }

  private void flowRow(String where, Scope scope, FlowKey key, Map<String, String> row) {
    Sum sum = scope.flows().get(key);
    same(
        where + " " + key,
        text(row, "fwd_packets", "fwd_octets", "rev_packets", "rev_octets"),
        "%d %d %d %d".formatted(sum.fwdPackets, sum.fwdOctets, sum.revPackets, sum.revOctets));
    same(
        where + " window",
        text(
            row,
            "window_octets",
            "window_packets",
            "window_flows",
            "overflow_octets",
            "duplicate_octets"),
        "%d %d %d %d %d"
            .formatted(
                scope.octets(),
                scope.packets(),
                scope.flows().size(),
                scope.overflow()[1],
                scope.twice()));
  }

  private void talkerLists(long window, Scope scope, Map<String, Map<String, String>> rows) {
    Map<String, Ends> hosts = new TreeMap<>();
    Map<String, Ends> tcp = new TreeMap<>();
    Map<String, Ends> udp = new TreeMap<>();
    Map<String, Ends> whom = new TreeMap<>();
    scope
        .flows()
        .forEach(
            (key, sum) -> {
              end(hosts, key.src(), key, sum, true);
              end(hosts, key.dst(), key, sum, false);
              if (key.protocol() == 6) {
                end(tcp, "" + key.dstPort(), key, sum, false);
              }
              if (key.protocol() == 17) {
                end(udp, "" + key.dstPort(), key, sum, false);
              }
              if (scope.kind() != 3 && customer(key.src()) != 0) {
                end(whom, "" + customer(key.src()), key, sum, true);
              }
              if (scope.kind() != 3 && customer(key.dst()) != 0) {
                end(whom, "" + customer(key.dst()), key, sum, false);
              }
            });
    if (scope.kind() == 3) {
      hosts.keySet().removeIf(host -> customer(host) != scope.customer());
    }
    talkers(window, scope, 1, hosts, ends -> ends.inOctets, ends -> ends.inPackets, "addr", rows);
    talkers(window, scope, 2, hosts, ends -> ends.outOctets, ends -> ends.outPackets, "addr", rows);
    ToLongFunction<Ends> octets = ends -> ends.inOctets + ends.outOctets;
    ToLongFunction<Ends> packets = ends -> ends.inPackets + ends.outPackets;
    talkers(window, scope, 3, tcp, octets, packets, "number", rows);
    talkers(window, scope, 4, udp, octets, packets, "number", rows);
    talkers(window, scope, 6, whom, octets, packets, "number", rows);
  }

  private static void end(
      Map<String, Ends> into, String name, FlowKey key, Sum sum, boolean source) {
    Ends ends = into.computeIfAbsent(name, n -> new Ends());
    ends.inOctets += source ? sum.revOctets : sum.fwdOctets;
    ends.inPackets += source ? sum.revPackets : sum.fwdPackets;
    ends.outOctets += source ? sum.fwdOctets : sum.revOctets;
    ends.outPackets += source ? sum.fwdPackets : sum.revPackets;
    ends.flows.add(key);
  }

  /**
   * A list has the largest by octets, by packets and by flows, each once, the largest by octets
   * first.
   */
  private void talkers(
      long window,
      Scope scope,
      int list,
      Map<String, Ends> all,
      ToLongFunction<Ends> octets,
      ToLongFunction<Ends> packets,
      String name,
      Map<String, Map<String, String>> rows) {
    String place = scope.key(window) + " " + list;
    List<Map<String, String>> listed = new ArrayList<>();
    for (Map<String, String> row; (row = rows.get(place + " " + (listed.size() + 1))) != null; ) {
      listed.add(row);
    }
    String where = "top_talkers " + place;
    ranked(where, listed, "rank", all, octets, name);
    ranked(where, listed, "packets_rank", all, packets, name);
    ranked(
        where,
        listed,
        "flows_rank",
        all,
        ends -> packets.applyAsLong(ends) > 0 ? ends.flows.size() : 0,
        name);
    Set<String> once = new HashSet<>();
    for (Map<String, String> row : listed) {
      String key = row.getOrDefault(name, "0");
      Ends ends = all.get(key);
      boolean wanted =
          number(row, "rank") <= TOP
              || number(row, "packets_rank") > 0
              || number(row, "flows_rank") > 0;
      if (ends == null || !once.add(key) || !wanted) {
        differences.add(where + ": there is no such one, or twice, or it is too small: " + row);
        continue;
      }
      same(
          where + " " + key,
          text(row, "in_octets", "in_packets", "out_octets", "out_packets", "flows"),
          "%d %d %d %d %d"
              .formatted(
                  ends.inOctets,
                  ends.inPackets,
                  ends.outOctets,
                  ends.outPackets,
                  ends.flows.size()));
      same(
          where + " window",
          text(row, "window_octets", "window_packets", "window_overflow_octets"),
          "%d %d %d".formatted(scope.octets(), scope.packets(), scope.overflow()[1]));
    }
  }

  /** Compares the values of the rows that have a rank in a column with the largest values. */
  private void ranked(
      String where,
      List<Map<String, String>> listed,
      String column,
      Map<String, Ends> all,
      ToLongFunction<Ends> value,
      String name) {
    List<Long> best =
        all.values().stream()
            .map(value::applyAsLong)
            .filter(of -> of > 0)
            .sorted(Comparator.reverseOrder())
            .limit(TOP)
            .toList();
    List<Long> had =
        listed.stream()
            .filter(row -> number(row, column) > 0)
            .sorted(Comparator.comparingLong(row -> number(row, column)))
            .limit(column.equals("rank") ? TOP : listed.size())
            .map(row -> all.getOrDefault(row.getOrDefault(name, "0"), new Ends()))
            .map(value::applyAsLong)
            .toList();
    same(where + " " + column, had, best);
  }

  /**
   * Octets and packets of each longer window, in all directions together; and in each direction,
   * the rows of every dimension add up to the total.
   */
  private void mixes(List<String> lines) {
    Map<String, Map<String, String>> rows =
        newest(
            lines, "mixes", "ts", "scope", "probe", "customer", "dimension", "direction", "rank");
    Map<String, long[]> had = new TreeMap<>();
    Map<String, long[][]> whole = new TreeMap<>();
    for (Map<String, String> row : rows.values()) {
      long[] sum =
          whole
              .computeIfAbsent(
                  text(row, "ts", "scope", "probe", "customer", "direction"),
                  key -> new long[DIMENSIONS][3])[(int) number(row, "dimension") - 1];
      sum[0] += number(row, "octets");
      sum[1] += number(row, "packets");
      sum[2] += number(row, "flows");
      if (number(row, "dimension") == 1) {
        long[] sums =
            had.computeIfAbsent(text(row, "ts", "scope", "probe", "customer"), key -> new long[3]);
        sums[0] += number(row, "octets");
        sums[1] += number(row, "packets");
        sums[2] = number(row, "probes_reported");
      }
    }
    whole.forEach(
        (key, sums) -> {
          for (int at = 1; at < DIMENSIONS; at++) {
            same(
                "mixes " + key + " dimension " + (at + 1),
                Arrays.toString(sums[at]),
                Arrays.toString(sums[0]));
          }
        });
    Map<String, long[]> wanted = new TreeMap<>();
    Set<String> late = new TreeSet<>();
    Map<String, Boolean> closed = new TreeMap<>();
    windows.forEach(
        (window, probes) -> {
          long mix = Math.floorDiv(window, MIX_MS) * MIX_MS;
          boolean anyLate = probes.values().stream().anyMatch(seen -> seen.isLate);
          for (Scope scope : scopes(probes)) {
            long[] sums = wanted.computeIfAbsent(scope.key(mix), key -> new long[2]);
            sums[0] += scope.octets();
            sums[1] += scope.packets();
            Seen own = probes.get(scope.probe());
            if (own == null ? anyLate : own.isLate) {
              late.add(scope.key(mix));
            }
            if (own != null) {
              Boolean complete = complete(scope.probe(), window + WINDOW_MS);
              closed.merge(scope.key(mix), Boolean.TRUE.equals(complete), Boolean::logicalAnd);
            }
          }
        });
    wanted.forEach(
        (key, sums) -> {
          long[] mix = had.getOrDefault(key, new long[2]);
          if (!late.contains(key) && (mix[0] != sums[0] || mix[1] != sums[1])) {
            differences.add(
                "mixes %s: %d octets, %d packets are to be %d and %d"
                    .formatted(key, mix[0], mix[1], sums[0], sums[1]));
          }
          if (!late.contains(key) && closed.getOrDefault(key, false)) {
            same("mixes " + key + " probes_reported", mix.length == 3 ? mix[2] : -1, 1L);
          }
          if (mix[0] > sums[0] && key.contains(" 1 ")) {
            differences.add("mixes " + key + ": more than came");
          }
        });
    had.keySet().removeAll(wanted.keySet());
    had.forEach(
        (key, sums) -> {
          if (sums[0] != 0) {
            differences.add("mixes " + key + ": of nothing that came");
          }
        });
  }
}
