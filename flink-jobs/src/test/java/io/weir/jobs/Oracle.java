package io.weir.jobs;

import com.google.protobuf.InvalidProtocolBufferException;
import io.weir.jobs.Received.FlowKey;
import io.weir.jobs.Trace.Event;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.function.ToLongFunction;

/**
 * The expected contents of the tables once all input is processed, computed by plain sums over the
 * received messages: written from the promises in the documents ({@code
 * docs/explanation/windows.md}, {@code design.md}), without any of the jobs' own code.
 *
 * <p>A record that came within {@link Received#LATE_MS} after its window's end, by the time that
 * windows follow ({@link StreamTime}), is in the window's rows, however the jobs read it. A record
 * that came later, or so early that its window was not kept ({@link Received#AHEAD_MS}), may or may
 * not be in them: rows of its window lie between the two sums.
 */
final class Oracle {
  /** The length of lists. */
  static final int TOP = 3;

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
      case "mixes" -> new MixOracle(this, received).check(lines);
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

  /**
   * Checks that the value of every further row with the same key is no smaller, and that its
   * version is higher.
   */
  void grows(
      String table,
      List<Map<String, String>> rows,
      ToLongFunction<Map<String, String>> value,
      String... key) {
    Map<String, Map<String, String>> before = new HashMap<>();
    for (Map<String, String> row : rows) {
      Map<String, String> last = before.put(text(row, key), row);
      if (last == null) {
        continue;
      }
      String where = table + " " + text(row, key);
      if (Schedule.ENABLED.contains(Schedule.Property.VERSIONS)
          && number(row, "version") <= number(last, "version")) {
        differs(where + ": version " + row.get("version") + " after " + last.get("version"));
      }
      if (value.applyAsLong(row) < value.applyAsLong(last)) {
        differs(
            "%s: version %s has %d after %d"
                .formatted(
                    where, row.get("version"), value.applyAsLong(row), value.applyAsLong(last)));
      }
    }
  }

  /** The rows of a table, in the order in which they were written. */
  static List<Map<String, String>> rows(List<String> lines, String table) {
    return lines.stream().map(line -> row(line, table)).filter(Objects::nonNull).toList();
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

  void between(String what, long had, long least, long most) {
    if (had < least || had > most) {
      differs(what + ": " + had + " is to be " + (least == most ? "" : least + " to ") + most);
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
          if (part.closing != null && !part.several && !received.isWithinAnotherRun(part.header)) {
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
}
