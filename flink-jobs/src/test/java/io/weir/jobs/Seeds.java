package io.weir.jobs;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.function.LongFunction;
import java.util.stream.LongStream;

/** The schedules that a simulator tries: {@code weir.seeds} of them, from {@code weir.seed} on. */
public final class Seeds {
  private Seeds() {}

  /**
   * Tries every seed, several at once; none may fail.
   *
   * @param failures the errors of a seed's schedule, empty if there are none
   */
  public static void assertNoneFails(LongFunction<List<String>> failures) {
    long first = Long.getLong("weir.seed", 1);
    long seeds = Long.getLong("weir.seeds", 1000);
    List<String> failed =
        LongStream.range(first, first + seeds)
            .parallel()
            .mapToObj(failures)
            .flatMap(List::stream)
            .toList();
    assertEquals("", String.join("\n", failed));
  }
}
