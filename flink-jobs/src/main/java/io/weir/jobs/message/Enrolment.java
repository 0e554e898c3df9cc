package io.weir.jobs.message;

import io.weir.jobs.serde.WireType;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
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
   * @param counters the end of the topic of counters
   * @param newestCounters when the broker received its newest message
   */
  public record Probe(
      String name,
      long[] begin,
      long[] end,
      long[] newest,
      long[] counters,
      long[] newestCounters) {
    /** A probe with only the offsets of its flows known. */
    public Probe(String name, long[] begin, long[] end) {
      this(name, begin, end, new long[end.length], new long[0], new long[0]);
    }

    private LongStream ends(boolean ofCounters) {
      long[] ends = ofCounters ? counters : end;
      long[] came = ofCounters ? newestCounters : newest;
      return LongStream.concat(
          LongStream.of(ends.length),
          IntStream.range(0, ends.length)
              .boxed()
              .flatMapToLong(i -> LongStream.of(ends[i], came[i])));
    }
  }

  /**
   * For each probe the number of partitions, and for each its end and when its newest message
   * arrived.
   */
  public long[] ends(boolean ofCounters) {
    return probes.stream().flatMapToLong(probe -> probe.ends(ofCounters)).toArray();
  }

  /** Takes in the numbers of {@link #ends} of the probes with these names. */
  public static void forEnds(List<String> names, long[] numbers, Ends taker) {
    int at = 0;
    for (String name : names) {
      int partitions = (int) numbers[at++];
      for (int partition = 0; partition < partitions; partition++) {
        taker.take(name, partition, numbers[at++], numbers[at++]);
      }
    }
  }

  /** Notes the end of a partition and when its newest message arrived. */
  public interface Ends {
    void take(String probe, int partition, long end, long came);
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
