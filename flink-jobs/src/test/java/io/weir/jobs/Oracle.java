package io.weir.jobs;

import com.google.protobuf.InvalidProtocolBufferException;
import io.weir.jobs.Received.FlowKey;
import io.weir.jobs.Received.Scope;
import io.weir.jobs.Received.Seen;
import io.weir.jobs.Trace.Event;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;

/**
 * The expected contents of the tables once all input is processed, computed by plain sums over the
 * received messages: written from the promises in the documents ({@code
 * docs/explanation/windows.md}, {@code design.md}), without any of the jobs' own code.
 *
 * <p>A record that came within {@link Received#LATE_MS} after its window's end is in the window's
 * rows. A record that came later may or may not be in them: rows of its window lie between the two
 * sums.
 */
final class Oracle {
  /** The length of the windows of mixes. */
  private static final long MIX_MS = 60_000;

  /** The length of lists. */
  static final int TOP = 3;

  /** Dimensions of mixes: total, application, AS, country, customer, AS with application. */
  private static final int DIMENSIONS = 6;

  private final Received received;
  private final List<String> differences = new ArrayList<>();

  Oracle(List<Event> events) throws InvalidProtocolBufferException {
    received = new Received(events);
  }

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
      case "topn" -> new TopnOracle(this, received).check(lines);
      case "mixes" -> mixes(lines);
      case "filters" -> received.counters.check(this, lines);
      case "health" -> received.health.check(this, lines);
      case "indicators" ->
          new IndicatorOracle(this, received)
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

  /** Notes a difference. */
  void differs(String difference) {
    differences.add(difference);
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
    List<String> wanted = new ArrayList<>(received.flowRows);
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
    received.intervals.forEach(
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
                received.sequences.get(key.split(" ")[0] + "/" + key.split(" ")[1]);
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

  static FlowKey flowKey(Map<String, String> row) {
    return new FlowKey(
        row.getOrDefault("src_addr", ""),
        (int) number(row, "src_port"),
        row.getOrDefault("dst_addr", ""),
        (int) number(row, "dst_port"),
        (int) number(row, "protocol"));
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
    received
        .windows()
        .forEach(
            (window, probes) -> {
              long mix = Math.floorDiv(window, MIX_MS) * MIX_MS;
              boolean anyLate = probes.values().stream().anyMatch(seen -> seen.isLate);
              for (Scope scope : received.scopes(probes)) {
                long[] sums = wanted.computeIfAbsent(scope.key(mix), key -> new long[2]);
                sums[0] += scope.octets();
                sums[1] += scope.packets();
                Seen own = probes.get(scope.probe());
                if (own == null ? anyLate : own.isLate) {
                  late.add(scope.key(mix));
                }
                if (own != null) {
                  Boolean complete = received.complete(scope.probe(), window + Received.WINDOW_MS);
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
