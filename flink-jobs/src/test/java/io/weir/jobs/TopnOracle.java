package io.weir.jobs;

import io.weir.jobs.Received.FlowKey;
import io.weir.jobs.Received.Scope;
import io.weir.jobs.Received.Seen;
import io.weir.jobs.Received.Sum;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.ToLongFunction;

/**
 * The lists of flows and talkers ({@code topn}) of each window, compared with the received flows.
 */
final class TopnOracle {
  /** Sums of a host or a port. */
  private static final class Ends {
    long inOctets;
    long inPackets;
    long outOctets;
    long outPackets;
    final Set<FlowKey> flows = new HashSet<>();
  }

  private final Oracle oracle;
  private final Received received;

  TopnOracle(Oracle oracle, Received received) {
    this.oracle = oracle;
    this.received = received;
  }

  void check(List<String> lines) {
    String[] flowKey = {"ts", "scope", "probe", "customer", "list", "rank"};
    Map<String, Map<String, String>> flows = Oracle.newest(lines, "top_flows", flowKey);
    Map<String, Map<String, String>> talkers = Oracle.newest(lines, "top_talkers", flowKey);
    flows.values().removeIf(row -> Oracle.number(row, "packets") == 0);
    talkers.values().removeIf(row -> Oracle.number(row, "packets") == 0);
    Set<String> known = new TreeSet<>();
    received
        .windows()
        .forEach(
            (window, probes) -> {
              boolean anyLate = probes.values().stream().anyMatch(seen -> seen.isLate);
              for (Scope scope : received.scopes(probes)) {
                known.add(scope.key(window));
                Map<String, String> first = flows.get(scope.key(window) + " 1 1");
                if (first != null && received.least(scope, probes).octets() > 0) {
                  oracle.between(
                      "window " + scope.key(window) + " probes_reported",
                      Oracle.number(first, "probes_reported"),
                      0,
                      received.closed(scope, window + Received.WINDOW_MS));
                }
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
    List<Map<String, String>> firsts =
        Oracle.rows(lines, "top_flows").stream()
            .filter(row -> Oracle.text(row, "list", "rank").equals("1 1"))
            .filter(row -> Oracle.number(row, "scope") != 3)
            .toList();
    oracle.grows("top_flows", firsts, TopnOracle::covered, flowKey);
    for (Map<String, Map<String, String>> table : List.of(flows, talkers)) {
      for (Map<String, String> row : table.values()) {
        String key = Oracle.text(row, "ts", "scope", "probe", "customer");
        if (!known.contains(key)) {
          oracle.differs("a row of nothing that came: " + row);
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
    long end = window + Received.WINDOW_MS;
    if (own != null) {
      Boolean complete = received.complete(scope.probe(), end);
      if (complete != null) {
        oracle.same(
            "window " + scope.key(window) + " probes_reported",
            Oracle.number(first, "probes_reported"),
            complete ? 1L : 0L);
      }
    }
    if (own != null && received.isSaidOnce(window, scope.probe())) {
      oracle.same("window " + scope.key(window) + " version", Oracle.number(first, "version"), 1L);
    }
    long changes =
        received.workersOfProbe.size()
            + received.afterEnd(window)
            + received.afterEnd(window - Received.WINDOW_MS);
    if (Oracle.number(first, "version") > 1 + changes && !received.isAnySetBack()) {
      oracle.differs(
          "window "
              + scope.key(window)
              + ": version "
              + first.get("version")
              + " after "
              + changes);
    }
  }

  /** Whether the rows state that they are inexact, because memory was insufficient. */
  private static boolean isCoarse(Map<String, Map<String, String>> rows, String scope) {
    Map<String, String> first = rows.get(scope + " 1 1");
    return first != null && Oracle.number(first, "error_octets") > 0;
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
      if (scope.flows().values().stream().anyMatch(sum -> sum.sureOctets > 0)) {
        oracle.differs("window " + scope.key(window) + ": no rows");
      }
      return;
    }
    oracle.between("window " + scope.key(window) + " octets", covered(row), all - late, all);
  }

  /** The octets that a row's window covers. */
  private static long covered(Map<String, String> row) {
    return Oracle.number(row, "window_octets") + Oracle.number(row, "duplicate_octets");
  }

  private static boolean isOf(int list, int protocol) {
    return switch ((list - 1) / 2) {
      case 0 -> true;
      case 1 -> protocol == 6;
      case 2 -> protocol == 17;
      default -> protocol == 1 || protocol == 58;
    };
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
      oracle.list(
          "top_flows",
          scope.key(window) + " " + list,
          rows,
          values,
          Oracle::flowKey,
          (where, key, row) -> flowRow(where, scope, key, row));
    }
  }

  private void flowRow(String where, Scope scope, FlowKey key, Map<String, String> row) {
    Sum sum = scope.flows().get(key);
    oracle.same(
        where + " " + key,
        Oracle.text(row, "fwd_packets", "fwd_octets", "rev_packets", "rev_octets"),
        "%d %d %d %d".formatted(sum.fwdPackets, sum.fwdOctets, sum.revPackets, sum.revOctets));
    oracle.same(
        where + " window",
        Oracle.text(
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
              if (scope.kind() != 3 && received.customer(key.src()) != 0) {
                end(whom, "" + received.customer(key.src()), key, sum, true);
              }
              if (scope.kind() != 3 && received.customer(key.dst()) != 0) {
                end(whom, "" + received.customer(key.dst()), key, sum, false);
              }
            });
    if (scope.kind() == 3) {
      hosts.keySet().removeIf(host -> received.customer(host) != scope.customer());
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
          Oracle.number(row, "rank") <= Oracle.TOP
              || Oracle.number(row, "packets_rank") > 0
              || Oracle.number(row, "flows_rank") > 0;
      if (ends == null || !once.add(key) || !wanted) {
        oracle.differs(where + ": there is no such one, or twice, or it is too small: " + row);
        continue;
      }
      oracle.same(
          where + " " + key,
          Oracle.text(row, "in_octets", "in_packets", "out_octets", "out_packets", "flows"),
          "%d %d %d %d %d"
              .formatted(
                  ends.inOctets,
                  ends.inPackets,
                  ends.outOctets,
                  ends.outPackets,
                  ends.flows.size()));
      oracle.same(
          where + " window",
          Oracle.text(row, "window_octets", "window_packets", "window_overflow_octets"),
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
            .limit(Oracle.TOP)
            .toList();
    List<Long> had =
        listed.stream()
            .filter(row -> Oracle.number(row, column) > 0)
            .sorted(Comparator.comparingLong(row -> Oracle.number(row, column)))
            .limit(column.equals("rank") ? Oracle.TOP : listed.size())
            .map(row -> all.getOrDefault(row.getOrDefault(name, "0"), new Ends()))
            .map(value::applyAsLong)
            .toList();
    oracle.same(where + " " + column, had, best);
  }
}
