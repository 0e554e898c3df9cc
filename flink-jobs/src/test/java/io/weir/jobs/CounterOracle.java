package io.weir.jobs;

import com.google.protobuf.InvalidProtocolBufferException;
import io.weir.jobs.Trace.Event;
import io.weir.proto.Counter;
import io.weir.proto.CounterMessage;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * The expected rows of {@code counters} and {@code counter_means}: each counter of a received
 * message is a row, and means over half a minute and five minutes cover all messages that came in
 * time.
 */
final class CounterOracle {
  private static final long[] SPANS_S = {30, 300};

  private final List<String> rows = new ArrayList<>();
  private final Set<String> messages = new HashSet<>();

  /** Packets and octets by the key of the row. */
  private final Map<String, long[]> means = new TreeMap<>();

  /** Windows for which some data came too late, with their scope. */
  private final Set<String> late = new HashSet<>();

  void message(Event event) throws InvalidProtocolBufferException {
    CounterMessage message = CounterMessage.parseFrom(event.message().value());
    if (!messages.add(
        message.getProbe()
            + "/"
            + message.getWorker()
            + "/"
            + message.getEpoch()
            + "/"
            + message.getSequence())) {
      return;
    }
    for (Counter counter : message.getCountersList()) {
      rows.add(
          "%s %s %d %s %s %d %d"
              .formatted(
                  Received.time(message.getIntervalStartMs()),
                  message.getProbe(),
                  message.getWorker(),
                  counter.getSet(),
                  counter.getLabel(),
                  counter.getPackets(),
                  counter.getOctets()));
      for (long span : SPANS_S) {
        long start = Math.floorDiv(message.getIntervalStartMs(), span * 1000) * span * 1000;
        for (String scope : List.of("1 " + message.getProbe(), "2 0")) {
          String window = "%s %d %s".formatted(Received.time(start), span, scope);
          if (event.at() >= start + span * 1000 + Received.LATE_MS
              || event.at() < start - Received.LATE_MS) {
            late.add(window);
          }
          String key = "%s %s %s".formatted(window, counter.getSet(), counter.getLabel());
          long[] sums = means.computeIfAbsent(key, k -> new long[2]);
          sums[0] += counter.getPackets();
          sums[1] += counter.getOctets();
        }
      }
    }
  }

  void check(Oracle oracle, List<String> lines) {
    List<String> stored = new ArrayList<>();
    for (String line : lines) {
      Map<String, String> row = Oracle.row(line, "counters");
      if (row != null) {
        stored.add(
            Oracle.text(row, "ts", "probe", "worker", "counter_set", "label", "packets", "octets"));
      }
    }
    List<String> wanted = new ArrayList<>(rows);
    wanted.sort(null);
    stored.sort(null);
    oracle.same("counters", stored, wanted);
    Map<String, Map<String, String>> had =
        Oracle.newest(lines, "means", "ts", "window_s", "scope", "probe", "counter_set", "label");
    had.keySet().removeIf(key -> key.contains(" 3600 ") || key.contains(" 86400 "));
    Set<String> keys = new TreeSet<>(had.keySet());
    keys.addAll(means.keySet());
    for (String key : keys) {
      long[] sums = means.getOrDefault(key, new long[2]);
      Map<String, String> row = had.getOrDefault(key, Map.of());
      long packets = Oracle.number(row, "packets");
      String[] words = key.split(" ");
      if (late.contains(String.join(" ", List.of(words).subList(0, 4)))) {
        if (packets > sums[0]) {
          oracle.same("means " + key + " packets, at most", packets, sums[0]);
        }
      } else {
        oracle.same("means " + key + " packets", packets, sums[0]);
        oracle.same("means " + key + " octets", Oracle.number(row, "octets"), sums[1]);
      }
    }
  }
}
