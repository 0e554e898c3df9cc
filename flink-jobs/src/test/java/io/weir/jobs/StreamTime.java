package io.weir.jobs;

import io.weir.jobs.Trace.Event;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Predicate;

/**
 * The latest time that windows may follow when a message is read, as the documents promise it: the
 * clock while Kafka holds nothing unread; else the time at which the broker received the first
 * unread message of the partition that is furthest behind. A pause in reading changes nothing. Only
 * a partition that is not read for {@link #WAIT_MS} while others are is not waited for, and after
 * {@link #SILENT_MS} not even its own next message finds the time as it was. Times are ms from
 * 1970.
 */
final class StreamTime {
  /** How long the jobs wait for a partition that they do not read while they read others. */
  static final long WAIT_MS = 15_000;

  /** How long the jobs wait for it at the most, as the documents say. */
  private static final long SILENT_MS = 60_000;

  /** A gap between two messages that is longer than this is a pause: no time of reading. */
  private static final long PAUSE_MS = 5_000;

  private static final class Partition {
    /** When the broker received the messages that are not read yet. */
    final Deque<Long> unread = new ArrayDeque<>();

    /** How long the jobs had been reading when they read the last message. */
    long read;
  }

  private final Map<String, Partition> partitions = new TreeMap<>();
  private long reading;
  private long last;
  private long time = Long.MIN_VALUE;

  private StreamTime() {}

  /**
   * The latest time at each event, before it is read; what has no message in {@code topics} keeps
   * the time of the event before.
   *
   * @param read in the order of reading, without what a crash made undone
   */
  static long[] latest(List<Event> read, Predicate<String> topics) {
    StreamTime clock = new StreamTime();
    List<Partition> of = new ArrayList<>();
    for (Event event : read) {
      boolean counts = event.message() != null && topics.test(event.message().topic());
      Partition own = null;
      if (counts) {
        own = clock.partitions.computeIfAbsent(event.partition(), key -> new Partition());
        own.unread.add(event.message().appended());
      }
      of.add(own);
    }
    long[] latest = new long[read.size()];
    for (int i = 0; i < latest.length; i++) {
      if (of.get(i) != null) {
        clock.read(of.get(i), read.get(i).at());
      } else if (read.get(i).stop() != null) {
        clock.last = read.get(i).at() + read.get(i).downMs();
      }
      latest[i] = clock.time;
    }
    return latest;
  }

  private void read(Partition own, long now) {
    reading += Math.min(now - last, PAUSE_MS);
    last = now;
    long to = now;
    for (Partition partition : partitions.values()) {
      boolean waited = reading - partition.read <= (partition == own ? SILENT_MS : WAIT_MS);
      if (waited && !partition.unread.isEmpty()) {
        to = Math.min(to, partition.unread.peek());
      }
    }
    time = Math.max(time, to);
    own.unread.poll();
    own.read = reading;
  }
}
