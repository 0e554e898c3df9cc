package io.weir.jobs;

import io.weir.jobs.Trace.Event;
import io.weir.jobs.Trace.Stop;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;

/**
 * When the jobs read what Kafka received. The messages of a trace are in the order in which Kafka
 * received them; this brings them into the order in which the jobs read them, each at that time:
 * those that came while the jobs were away, or did not read, later than the broker received them.
 */
final class Reading {
  /**
   * How the jobs read a backlog; times are ms of reading, from its beginning on.
   *
   * @param speed times real time; 0: all in an instant, partitions one before the other
   * @param apartMs how far the first partition is ahead of the last one, by the broker's time
   * @param pauses times at which the jobs read nothing, and for how long
   * @param restarts times at which the jobs stop, and for how long
   */
  record Pace(
      double speed, long apartMs, TreeMap<Long, Long> pauses, TreeMap<Long, Long> restarts) {
    static final Pace AT_ONCE = new Pace(0, 0, new TreeMap<>(), new TreeMap<>());

    /** From words such as {@code speed=2.5 apart=20 pause=12,40 restart=30,15}, in seconds. */
    static Pace of(List<String> words) {
      Pace pace = AT_ONCE;
      for (String word : words) {
        String[] parts = word.split("[=,]");
        switch (parts[0]) {
          case "speed" ->
              pace =
                  new Pace(
                      Double.parseDouble(parts[1]), pace.apartMs, new TreeMap<>(), new TreeMap<>());
          case "apart" -> pace = new Pace(pace.speed, ms(parts[1]), pace.pauses, pace.restarts);
          case "pause" -> pace.pauses.put(ms(parts[1]), ms(parts[2]));
          case "restart" -> pace.restarts.put(ms(parts[1]), ms(parts[2]));
          default -> {} // of the stop itself
        }
      }
      return pace;
    }

    private static long ms(String seconds) {
      return Long.parseLong(seconds) * 1000;
    }

    /** All times at which nothing is read, with their lengths. */
    private TreeMap<Long, Long> gaps() {
      TreeMap<Long, Long> gaps = new TreeMap<>(pauses);
      restarts.forEach((at, length) -> gaps.merge(at, length, Long::sum));
      return gaps;
    }
  }

  private Reading() {}

  /**
   * The events in the order of reading. After a checkpoint come the events until the crash, whose
   * effects are lost; after the crash the messages since the checkpoint come again.
   */
  static List<Event> of(List<Event> trace) {
    List<Event> read = new ArrayList<>(trace);
    int checkpoint = -1;
    for (int i = 0; i < read.size(); i++) {
      Event event = read.get(i);
      if (event.stop() == Stop.CHECKPOINT) {
        checkpoint = i;
      } else if (event.stop() == Stop.CRASH || event.stop() == Stop.STALL) {
        boolean crash = event.stop() == Stop.CRASH;
        List<Event> again = read.subList(crash && checkpoint >= 0 ? checkpoint + 1 : i, i);
        List<Event> rest = read.subList(i + 1, read.size());
        List<Event> later = later(event, List.copyOf(again), List.copyOf(rest));
        rest.clear();
        read.addAll(later);
      }
    }
    return read;
  }

  /** Without the events that a crash made undone. */
  static List<Event> kept(List<Event> read) {
    List<Event> kept = new ArrayList<>();
    int checkpoint = 0;
    for (Event event : read) {
      if (event.stop() == Stop.CRASH) {
        kept.subList(checkpoint, kept.size()).clear();
      }
      kept.add(event);
      if (event.stop() == Stop.CHECKPOINT) {
        checkpoint = kept.size();
      }
    }
    return kept;
  }

  /** The events after a stop, in the order of reading. */
  private static List<Event> later(Event stop, List<Event> again, List<Event> rest) {
    long back = stop.at() + stop.downMs();
    Map<String, Deque<Event>> partitions = new TreeMap<>();
    List<Event> others = new ArrayList<>();
    boolean atOnce = stop.pace().speed == 0;
    for (Event event : again) {
      if (event.message() != null) {
        partitions.computeIfAbsent(event.partition(), key -> new ArrayDeque<>()).add(event);
      }
    }
    for (Event event : rest) {
      if (event.message() != null && (event.at() < back || !atOnce)) {
        partitions.computeIfAbsent(event.partition(), key -> new ArrayDeque<>()).add(event);
      } else if (event.at() >= back || stop.stop() == Stop.STALL) {
        others.add(event);
      }
    }
    List<Event> read =
        atOnce ? atOnce(back, partitions) : paced(back, stop.pace(), partitions, others);
    read.addAll(others);
    // Lists of probes and the like come after the messages of the same moment.
    read.sort(Comparator.comparingLong(Event::at));
    return read;
  }

  /**
   * All messages at one moment: those of a partition in order, but some partitions before others.
   */
  private static List<Event> atOnce(long back, Map<String, Deque<Event>> partitions) {
    List<Event> read = new ArrayList<>();
    Random random = new Random(back);
    List<Deque<Event>> left = new ArrayList<>(partitions.values());
    while (!left.isEmpty()) {
      Deque<Event> partition = left.get(random.nextInt(left.size()));
      for (int n = 1 + random.nextInt(40); n > 0 && !partition.isEmpty(); n--) {
        read.add(partition.poll().at(back));
      }
      left.removeIf(Deque::isEmpty);
    }
    return read;
  }

  /** The messages at a pace; takes away and adds other events as the jobs stop in between. */
  private static List<Event> paced(
      long back, Pace pace, Map<String, Deque<Event>> partitions, List<Event> others) {
    long from =
        partitions.values().stream()
            .mapToLong(partition -> partition.peek().message().appended())
            .min()
            .orElse(back);
    TreeMap<Long, Long> gaps = pace.gaps();
    List<Event> read = new ArrayList<>();
    int number = 0;
    for (Deque<Event> partition : partitions.values()) {
      double behind =
          partitions.size() == 1 ? 0 : (double) pace.apartMs * number++ / (partitions.size() - 1);
      long last = back;
      for (Event event : partition) {
        double reading = (event.message().appended() - from + behind) / pace.speed;
        last = Math.max(last, Math.max(event.at(), back + (long) reading + before(gaps, reading)));
        last = after(back, gaps, last);
        read.add(event.at(last));
      }
    }
    long waited = 0;
    for (Map.Entry<Long, Long> gap : gaps.entrySet()) {
      long begin = back + gap.getKey() + waited;
      long end = begin + gap.getValue();
      waited += gap.getValue();
      if (pace.restarts.containsKey(gap.getKey())) {
        others.removeIf(event -> event.at() >= begin && event.at() < end);
        others.add(Event.stop(begin, gap.getValue(), 1));
      }
    }
    return read;
  }

  /** The length of the gaps until a moment of reading. */
  private static long before(TreeMap<Long, Long> gaps, double reading) {
    return gaps.headMap((long) reading, true).values().stream().mapToLong(Long::longValue).sum();
  }

  /** The moment itself, or the end of the gap in which it is. */
  private static long after(long back, TreeMap<Long, Long> gaps, long at) {
    long waited = 0;
    for (Map.Entry<Long, Long> gap : gaps.entrySet()) {
      long begin = back + gap.getKey() + waited;
      waited += gap.getValue();
      if (at >= begin && at < begin + gap.getValue()) {
        return begin + gap.getValue();
      }
    }
    return at;
  }
}
