package io.weir.jobs.message;

import io.weir.jobs.serde.WireType;
import java.util.List;
import java.util.stream.Collectors;

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
   * @param begin first offset that Kafka still has
   * @param end offset that the next message will get
   */
  public record Probe(String name, long[] begin, long[] end) {}

  /** The probes' names in one text, one a line. */
  public String names() {
    return probes.stream().map(Probe::name).collect(Collectors.joining("\n"));
  }

  /** The names in such a text. */
  public static List<String> names(String text) {
    return text.isEmpty() ? List.of() : List.of(text.split("\n"));
  }
}
