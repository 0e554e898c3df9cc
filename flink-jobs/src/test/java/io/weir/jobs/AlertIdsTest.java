package io.weir.jobs;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.Trace.Event;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Alerts go to Kafka at once: if the jobs fail, and start from a checkpoint before an alert, they
 * must raise it again under its id, or readers keep an alert that nobody closes.
 */
class AlertIdsTest {
  /** Events between a checkpoint and the failure: more than half a minute. */
  private static final int EVENTS = 12;

  static List<Path> traces() throws IOException {
    try (Stream<Path> files = Files.list(Path.of("src/test/resources/health"))) {
      return files.filter(path -> path.toString().endsWith(".trace")).sorted().toList();
    }
  }

  @ParameterizedTest
  @MethodSource("traces")
  void aFailureGivesNoAlertAnotherId(Path trace) throws Exception {
    List<Event> events = Trace.read("" + trace, Files.readAllLines(trace));
    Set<String> ids = ids(run(events, events.size(), events.size()));
    int again = 0;
    int listed = 0;
    // Of a probe that never sent anything, an alert states since when the jobs have known it, and
    // no
    // message says that again.
    while (events.get(listed).enrolment() != null) {
      listed++;
    }
    for (int checkpoint = listed; checkpoint + EVENTS < events.size(); checkpoint += 2) {
      List<String> lines = run(events, checkpoint, checkpoint + EVENTS);
      Set<String> others = ids(lines);
      others.removeAll(ids);
      assertTrue(others.isEmpty(), "checkpoint before event " + checkpoint + ": " + lines);
      again += (int) lines.stream().filter(line -> line.endsWith(" version=1")).count();
      again -= ids(lines).size();
    }
    assertTrue(again > 0 || ids.isEmpty(), "no alert came twice");
  }

  /** The lines of a run with a checkpoint before one event, and a failure before another one. */
  private static List<String> run(List<Event> events, int checkpoint, int failure)
      throws Exception {
    List<String> lines = new ArrayList<>();
    try (TraceJobs.Job jobs = TraceJobs.BY_FOLDER.get("health").make(0)) {
      play(jobs, events.subList(0, checkpoint), lines);
      List<Stage.Saved> state = jobs.save(lines);
      play(jobs, events.subList(checkpoint, failure), lines);
      if (failure < events.size()) {
        long back = events.get(failure).at();
        jobs.load(state, back, 1);
        for (Event event : events.subList(checkpoint, failure)) {
          if (event.message() != null) {
            jobs.happen(new Event(back, event.message(), null), lines);
          }
        }
        play(jobs, events.subList(failure, events.size()), lines);
      }
    }
    return lines;
  }

  private static void play(TraceJobs.Job jobs, List<Event> events, List<String> lines)
      throws Exception {
    for (Event event : events) {
      jobs.happen(event, lines);
    }
  }

  /** The ids of alerts, but of those on unread messages: the jobs' own delay begins anew. */
  private static Set<String> ids(List<String> lines) {
    Set<String> ids = new TreeSet<>();
    for (String line : lines) {
      if (!line.contains(" reason=lag_growing ")) {
        ids.add(line.replaceAll("^.* id=(\\w+) .*$", "$1"));
      }
    }
    return ids;
  }
}
