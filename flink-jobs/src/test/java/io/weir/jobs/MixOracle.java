package io.weir.jobs;

import io.weir.jobs.Received.Scope;
import io.weir.jobs.Received.Seen;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** The sums of mixes, compared with those of the received flows. */
final class MixOracle {
  /** The length of a window. */
  private static final long MIX_MS = 60_000;

  /** Dimensions: total, application, AS, country, customer, AS with application. */
  private static final int DIMENSIONS = 6;

  /** What is expected of a scope's window. */
  private static final class Wanted {
    Received.Sums least = Received.Sums.NONE;
    Received.Sums most = Received.Sums.NONE;
    boolean isLate;

    /** Whether the probe has certainly closed the window. */
    boolean closed = true;

    /** The most probes that can have closed the window. */
    long reported = Long.MAX_VALUE;

    /** Whether several probes saw the same flow, so that another one may be chosen later. */
    boolean isShared;
  }

  private final Oracle oracle;
  private final Received received;
  private final Map<String, Wanted> all = new TreeMap<>();

  MixOracle(Oracle oracle, Received received) {
    this.oracle = oracle;
    this.received = received;
    received
        .windows()
        .forEach(
            (window, probes) -> {
              long mix = Math.floorDiv(window, MIX_MS) * MIX_MS;
              for (Scope scope : received.scopes(probes)) {
                add(window, scope, probes, all.computeIfAbsent(scope.key(mix), k -> new Wanted()));
              }
            });
  }

  private void add(long window, Scope scope, Map<String, Seen> probes, Wanted wanted) {
    long end = window + Received.WINDOW_MS;
    Seen own = probes.get(scope.probe());
    boolean late = own == null ? probes.values().stream().anyMatch(s -> s.isLate) : own.isLate;
    Received.Sums exact = new Received.Sums(scope.octets(), scope.packets());
    wanted.isLate |= late;
    wanted.least = wanted.least.plus(late ? received.least(scope, probes) : exact);
    wanted.most = wanted.most.plus(late ? received.most(scope, probes) : exact);
    wanted.isShared |= scope.kind() != 1 && received.isShared(probes);
    if (own != null) {
      wanted.closed &= Boolean.TRUE.equals(received.complete(scope.probe(), end));
    }
    if (received.least(scope, probes).octets() > 0) {
      wanted.reported = Math.min(wanted.reported, received.closed(scope, end));
    }
  }

  /**
   * Octets and packets of each longer window, in all directions together; and in each direction,
   * the rows of every dimension add up to the total.
   */
  void check(List<String> lines) {
    Map<String, Map<String, String>> rows =
        Oracle.newest(
            lines, "mixes", "ts", "scope", "probe", "customer", "dimension", "direction", "rank");
    Map<String, long[]> had = new TreeMap<>();
    Map<String, long[][]> whole = new TreeMap<>();
    for (Map<String, String> row : rows.values()) {
      long[] sum =
          whole
              .computeIfAbsent(
                  Oracle.text(row, "ts", "scope", "probe", "customer", "direction"),
                  key -> new long[DIMENSIONS][3])[(int) Oracle.number(row, "dimension") - 1];
      sum[0] += Oracle.number(row, "octets");
      sum[1] += Oracle.number(row, "packets");
      sum[2] += Oracle.number(row, "flows");
      if (Oracle.number(row, "dimension") == 1) {
        long[] sums =
            had.computeIfAbsent(
                Oracle.text(row, "ts", "scope", "probe", "customer"), key -> new long[3]);
        sums[0] += Oracle.number(row, "octets");
        sums[1] += Oracle.number(row, "packets");
        sums[2] = Oracle.number(row, "probes_reported");
      }
    }
    whole.forEach(
        (key, sums) -> {
          for (int at = 1; at < DIMENSIONS; at++) {
            oracle.same(
                "mixes " + key + " dimension " + (at + 1),
                Arrays.toString(sums[at]),
                Arrays.toString(sums[0]));
          }
        });
    all.forEach((key, wanted) -> sums("mixes " + key, had.get(key), wanted));
    had.keySet().removeAll(all.keySet());
    had.forEach(
        (key, sums) -> {
          if (sums[0] != 0) {
            oracle.differs("mixes " + key + ": of nothing that came");
          }
        });
    List<Map<String, String>> totals =
        Oracle.rows(lines, "mixes").stream()
            .filter(row -> Oracle.number(row, "dimension") == 1 && canOnlyGrow(row))
            .toList();
    oracle.grows(
        "mixes",
        totals,
        row -> Oracle.number(row, "octets"),
        "ts",
        "scope",
        "probe",
        "customer",
        "direction");
  }

  private void sums(String where, long[] sums, Wanted wanted) {
    long[] had = sums == null ? new long[2] : sums;
    oracle.between(where + " octets", had[0], wanted.least.octets(), wanted.most.octets());
    oracle.between(where + " packets", had[1], wanted.least.packets(), wanted.most.packets());
    if (!wanted.isLate && wanted.closed && where.contains(" 1 p")) {
      oracle.same(where + " probes_reported", had.length == 3 ? had[2] : -1, 1L);
    }
    if (had.length == 3) {
      oracle.between(where + " probes_reported", had[2], 0, wanted.reported);
    }
  }

  private boolean canOnlyGrow(Map<String, String> row) {
    Wanted wanted = all.get(Oracle.text(row, "ts", "scope", "probe", "customer"));
    return wanted != null && !wanted.isShared;
  }
}
