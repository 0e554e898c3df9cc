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
 * @param ahead by how many ms the clock that tells {@code at} is ahead of the broker's, as messages
 *     show; 0 if it is believed, {@link #UNSURE} while nothing shows whether it is right
 */
public record Enrolment(long at, List<Probe> probes, long ahead) {
  public static final WireType<Enrolment> TYPE = WireType.ofRecord(Enrolment.class);

  /** Value of {@link #ahead}. */
  public static final long UNSURE = -1;

  /** A list by a clock that is believed. */
  public Enrolment(long at, List<Probe> probes) {
    this(at, probes, 0);
  }

  /** The same list, by a clock that may be ahead. */
  public Enrolment doubted(long by) {
    return new Enrolment(at, probes, by);
  }

  /** Whether its time is believed. */
  public boolean isBelieved() {
    return ahead == 0;
  }

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
