package io.weir.jobs;

import io.weir.jobs.Received.FlowKey;
import io.weir.jobs.Received.Scope;
import io.weir.jobs.Received.Seen;
import io.weir.jobs.Received.Sum;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.ToLongFunction;

/**
 * The expected rows of {@code top_indicators}: the senders of SYNs, and the hosts whose first
 * contacts failed. A window judges the SYNs whose answer timeout ends in it; the answer may come
 * until the end of that window ({@code docs/explanation/windows.md}, Unanswered SYNs).
 */
final class IndicatorOracle {
  private static final long ANSWER_MS = 10_000;

  /** The ids of the lists, and of the sums in them. */
  private static final int SYN_SENDERS = 1;

  private static final int SCAN_FAILURES = 7;

  private static final class Host {
    long synSent;
    long finReceived;
    long rstReceived;
    long tcpPackets;
    long failed;
    long answered;

    void count(long syn, long fin, long rst, long packets) {
      synSent += syn;
      finReceived += fin;
      rstReceived += rst;
      tcpPackets += packets;
    }
  }

  private final Oracle oracle;
  private final Received received;

  IndicatorOracle(Oracle oracle, Received received) {
    this.oracle = oracle;
    this.received = received;
  }

  /** Compares the rows, by window, scope, probe, customer, list and rank. */
  void check(Map<String, Map<String, String>> rows) {
    rows.values().removeIf(row -> Oracle.number(row, "value") == 0);
    TreeMap<Long, TreeMap<String, Seen>> windows = received.windows();
    windows.forEach(
        (window, probes) -> {
          for (Scope scope : received.scopes(probes)) {
            if (scope.kind() == 3 || isOpen(window, scope) || isOpen(window - 30_000, scope)) {
              continue;
            }
            Map<String, Host> hosts = new TreeMap<>();
            scope.flows().forEach((key, sum) -> count(hosts, key, sum));
            judge(window, scope, hosts);
            list(window, scope, SYN_SENDERS, hosts, host -> host.synSent, rows);
            list(window, scope, SCAN_FAILURES, hosts, host -> host.failed - host.answered, rows);
          }
        });
  }

  /** Whether data of the scope came too late to predict its rows. */
  private boolean isOpen(long window, Scope scope) {
    Map<String, Seen> probes = received.windows().getOrDefault(window, new TreeMap<>());
    Seen own = probes.get(scope.probe());
    return scope.kind() == 1
        ? own != null && own.isLate
        : probes.values().stream().anyMatch(seen -> seen.isLate);
  }

  private static void count(Map<String, Host> hosts, FlowKey key, Sum sum) {
    Host src = hosts.computeIfAbsent(key.src(), name -> new Host());
    Host dst = hosts.computeIfAbsent(key.dst(), name -> new Host());
    if (key.protocol() != 6) {
      return;
    }
    src.count(sum.fwdSyn, sum.revFin, sum.revRst, sum.packets());
    dst.count(sum.revSyn, sum.fwdFin, sum.fwdRst, sum.packets());
  }

  /** Counts the attempted destinations that this window judges. */
  private void judge(long window, Scope scope, Map<String, Host> hosts) {
    Map<String, Map<String, Boolean>> contacts = new HashMap<>();
    for (long tried : new long[] {window - Received.WINDOW_MS, window}) {
      Map<String, Seen> probes = received.windows().getOrDefault(tried, new TreeMap<>());
      for (String probe : scope.kind() == 1 ? Set.of(scope.probe()) : probes.keySet()) {
        Seen seen = probes.get(probe);
        if (seen == null) {
          continue;
        }
        seen.flows.forEach(
            (key, sum) -> {
              boolean now = sum.firstMs - tried < Received.WINDOW_MS - ANSWER_MS;
              if (key.protocol() != 6 || sum.fwdSyn == 0 || sum.guess || now != (tried == window)) {
                return;
              }
              boolean answered =
                  isAnswered(tried, scope, key) || (!now && isAnswered(window, scope, key));
              contacts
                  .computeIfAbsent(key.src(), name -> new HashMap<>())
                  .merge(key.dst(), answered, Boolean::logicalOr);
            });
      }
    }
    contacts.forEach(
        (name, peers) -> {
          Host host = hosts.computeIfAbsent(name, n -> new Host());
          host.failed = peers.values().stream().filter(answered -> !answered).count();
          host.answered = peers.size() - host.failed;
        });
  }

  private boolean isAnswered(long window, Scope scope, FlowKey key) {
    Map<String, Seen> probes = received.windows().getOrDefault(window, new TreeMap<>());
    for (Map.Entry<String, Seen> entry : probes.entrySet()) {
      Sum sum = entry.getValue().flows.get(key);
      if (sum != null
          && sum.revSynack > 0
          && (scope.kind() != 1 || entry.getKey().equals(scope.probe()))) {
        return true;
      }
    }
    return false;
  }

  private void list(
      long window,
      Scope scope,
      int list,
      Map<String, Host> hosts,
      ToLongFunction<Host> value,
      Map<String, Map<String, String>> rows) {
    Map<String, Long> values = new TreeMap<>();
    hosts.forEach((name, host) -> values.put(name, value.applyAsLong(host)));
    oracle.list(
        "top_indicators",
        scope.key(window) + " " + list,
        rows,
        values,
        row -> row.getOrDefault("addr", ""),
        (where, name, row) -> {
          Host host = hosts.get(name);
          oracle.same(
              where + " " + name + " syn_sent fin_recv rst_recv tcp_packets failed answered",
              Oracle.text(
                  row, "syn_sent", "fin_recv", "rst_recv", "tcp_packets", "failed", "answered"),
              "%d %d %d %d %d %d"
                  .formatted(
                      host.synSent,
                      host.finReceived,
                      host.rstReceived,
                      host.tcpPackets,
                      host.failed,
                      host.answered));
        });
  }
}
