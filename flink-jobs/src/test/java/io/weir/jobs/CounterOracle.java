package io.weir.jobs;

import com.google.protobuf.InvalidProtocolBufferException;
import io.weir.jobs.Trace.Event;
import io.weir.proto.Counter;
import io.weir.proto.CounterMessage;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * The expected rows of {@code counters} and {@code counter_means}: each counter of a received
 * message is a row, and means over half a minute, five minutes and an hour cover all messages that
 * came in time.
 */
final class CounterOracle {
  private static final String TOPIC = "weir.counters.";
  private static final long[] SPANS_S = {30, 300, 3_600};

  /** Packets and octets of a label: all that came, and the part that came in time. */
  private static final class Sum {
    long packets;
    long octets;
    long surePackets;
    long sureOctets;
  }

  private final List<String> rows = new ArrayList<>();
  private final Set<String> messages = new HashSet<>();

  /** By the key of the row. */
  private final Map<String, Sum> means = new TreeMap<>();

  /** By window with its scope: when the last counters came that it certainly took. */
  private final Map<String, Long> taken = new HashMap<>();

  /** Adds up the messages, in the order of reading. */
  void read(List<Event> read) throws InvalidProtocolBufferException {
    Map<String, long[]> latest = new HashMap<>();
    for (int number = 0; number < read.size(); number++) {
      Event event = read.get(number);
      if (event.message() != null && event.message().topic().startsWith(TOPIC)) {
        long[] own =
            latest.computeIfAbsent(
                event.message().topic(), topic -> StreamTime.latest(read, topic::equals));
        long[] all =
            latest.computeIfAbsent(
                TOPIC, begin -> StreamTime.latest(read, topic -> topic.startsWith(begin)));
        message(event, own[number], all[number]);
      }
    }
  }

  private void message(Event event, long own, long all) throws InvalidProtocolBufferException {
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
    }
    for (long span : SPANS_S) {
      add(event, message, span, "1 " + message.getProbe(), own);
      add(event, message, span, "2 0", all);
    }
  }

  /**
   * Adds a message to a window. It is certainly in the window's rows if it came within {@link
   * Received#LATE_MS} after the window's end or after its last part, and not so early that the
   * window was not kept.
   */
  private void add(Event event, CounterMessage message, long span, String scope, long latest) {
    long start = Math.floorDiv(message.getIntervalStartMs(), span * 1000) * span * 1000;
    String window = "%s %d %s".formatted(Received.time(start), span, scope);
    long time = Math.max(latest, event.message().appended());
    long last = taken.getOrDefault(window, time);
    boolean sure =
        time < Math.max(start + span * 1000, last) + Received.LATE_MS
            && !Received.isEarly(event, start);
    if (sure) {
      taken.merge(window, time, Math::max);
    }
    for (Counter counter : message.getCountersList()) {
      String key = "%s %s %s".formatted(window, counter.getSet(), counter.getLabel());
      Sum sum = means.computeIfAbsent(key, k -> new Sum());
      sum.packets += counter.getPackets();
      sum.octets += counter.getOctets();
      sum.surePackets += sure ? counter.getPackets() : 0;
      sum.sureOctets += sure ? counter.getOctets() : 0;
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
    had.keySet().removeIf(key -> key.contains(" 86400 "));
    Set<String> keys = new TreeSet<>(had.keySet());
    keys.addAll(means.keySet());
    for (String key : keys) {
      Sum sum = means.getOrDefault(key, new Sum());
      Map<String, String> row = had.getOrDefault(key, Map.of());
      String where = "means " + key;
      long packets = Oracle.number(row, "packets");
      oracle.between(where + " packets", packets, sum.surePackets, sum.packets);
      long octets = Oracle.number(row, "octets");
      oracle.between(where + " octets", octets, sum.sureOctets, sum.octets);
    }
    List<Map<String, String>> rows =
        Oracle.rows(lines, "means").stream()
            .filter(row -> !row.get("window_s").equals("86400")) // two days look alike
            .toList();
    String[] key = {"ts", "window_s", "scope", "probe", "counter_set", "label"};
    oracle.grows("means", rows, row -> Oracle.number(row, "packets"), key);
  }
}
