package io.weir.jobs.message;

import io.weir.jobs.serde.WireType;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.LongStream;

/**
 * The probes that have a flows topic, as Kafka listed them.
 *
 * @param at when, ms from 1970
 * @param probes in the order of their names
 */
public record Enrolment(long at, List<Probe> probes) {
  public static final WireType<Enrolment> TYPE = WireType.ofRecord(Enrolment.class);

  /**
   * A probe and its partitions, by number.
   *
   * @param begin first offset of the flows topic that Kafka still has
   * @param end offset that its next message will get
   * @param newest when the broker received its newest message, ms from 1970; 0 if there is none
   * @param newestCounters the same for the topic of counters
   */
  public record Probe(String name, long[] begin, long[] end, long[] newest, long[] newestCounters) {
    /** A probe of whose newest messages nothing is known. */
    public Probe(String name, long[] begin, long[] end) {
      this(name, begin, end, new long[0], new long[0]);
    }
  }

  /** For each probe the number of partitions, and when the newest message of each came. */
  public long[] newest(boolean counters) {
    return probes.stream()
        .map(probe -> counters ? probe.newestCounters : probe.newest)
        .flatMapToLong(
            newest -> LongStream.concat(LongStream.of(newest.length), Arrays.stream(newest)))
        .toArray();
  }

  /** Takes in the numbers of {@link #newest} of the probes with these names. */
  public static void forNewest(List<String> names, long[] numbers, NewestOf taker) {
    int at = 0;
    for (String name : names) {
      int partitions = (int) numbers[at++];
      for (int partition = 0; partition < partitions; partition++) {
        taker.take(name, partition, numbers[at++]);
      }
    }
  }

  /** Takes in when the newest message of a partition came. */
  public interface NewestOf {
    void take(String probe, int partition, long came);
  }

  /** The probes' names in one text, one a line. */
  public String names() {
    return probes.stream().map(Probe::name).collect(Collectors.joining("\n"));
  }

  /** The names in such a text. */
  public static List<String> names(String text) {
    return text.isEmpty() ? List.of() : List.of(text.split("\n"));
  }
}
