package io.weir.jobs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Every job on every trace in its folder of {@code src/test/resources}: the output must equal the
 * golden file of the same name, even if every operator is stopped and started again from its state
 * in mid-stream.
 */
class JobTraceTest {
  private static final Path RESOURCES = Path.of("src/test/resources");

  /**
   * About how many single restarts to try on a trace, evenly spread; {@code weir.restarts} may ask
   * for more.
   */
  private static final int RESTARTS = Integer.getInteger("weir.restarts", 8);

  static List<Path> traces() throws IOException {
    try (Stream<Path> files = Files.walk(RESOURCES)) {
      return files.filter(path -> path.toString().endsWith(".trace")).sorted().toList();
    }
  }

  @Test
  void everyJobHasTraces() throws IOException {
    Set<String> folders = new TreeSet<>();
    traces().forEach(trace -> folders.add("" + trace.getParent().getFileName()));
    assertEquals(new TreeSet<>(TraceJobs.BY_FOLDER.keySet()), folders);
    assertEquals(new TreeSet<>(Jobs.ALL.stream().map(job -> job.name()).toList()), folders);
  }

  @ParameterizedTest
  @MethodSource("traces")
  void theRowsAreThoseOfTheGoldenFile(Path trace) throws Exception {
    List<String> lines =
        TraceJobs.run(Files.readAllLines(trace), factory(trace), new TreeSet<>()).lines();
    assertFalse(lines.isEmpty());
    Golden.check(Path.of(trace.toString().replace(".trace", ".golden")), lines);
  }

  @Tag("engine")
  @ParameterizedTest
  @MethodSource("traces")
  void theRowsAreTheSameAfterARestart(Path trace) throws Exception {
    List<String> events = Files.readAllLines(trace);
    TraceJobs.Factory factory = factory(trace);
    String lines = run(events, factory, new TreeSet<>());
    TreeSet<Integer> all = new TreeSet<>();
    int count = Trace.read("" + trace, events).size() - 1;
    for (int at = 1; at <= count; at++) {
      all.add(at);
      if (at % Math.max(1, count / RESTARTS) != 0) {
        continue;
      }
      String again = run(events, factory, new TreeSet<>(List.of(at)));
      assertEquals(lines, again, "with a restart before event " + at);
    }
    assertEquals(lines, run(events, factory, all), "with a restart before every event");
  }

  /** The rows in the order of their text: Flink guarantees no order between keys. */
  private static String run(List<String> trace, TraceJobs.Factory factory, Set<Integer> restarts)
      throws Exception {
    List<String> lines = new ArrayList<>(TraceJobs.run(trace, factory, restarts).lines());
    Collections.sort(lines);
    return String.join("\n", lines);
  }

  private static TraceJobs.Factory factory(Path trace) {
    return TraceJobs.BY_FOLDER.get("" + trace.getParent().getFileName());
  }
}
