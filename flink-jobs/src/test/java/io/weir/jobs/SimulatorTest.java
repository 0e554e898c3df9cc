package io.weir.jobs;

import io.weir.jobs.Trace.Event;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * The jobs on random schedules ({@link Schedule}), compared with plain sums ({@link Oracle}): one
 * process, no clock, no sleep. {@code make simulate SEEDS=1000} runs more of them; a seed that
 * fails is made smaller and printed as a trace.
 */
class SimulatorTest {
  private static final List<String> JOBS =
      List.of("ingest", "topn", "indicators", "mixes", "filters", "health");

  /** Lines that reducing a schedule never removes. */
  private static final String KEPT =
      "\\S+ (probe|retire|declare|prefix|to|now|checkpoint|crash|stall|window-entries|seldom-barriers)\\b.*";

  @Test
  @Tag("engine")
  void everySchedule() {
    Seeds.assertNoneFails(SimulatorTest::failures);
  }

  /** The errors in the rows of a seed's schedule, and the reduced schedule. */
  private static List<String> failures(long seed) {
    List<String> lines = Schedule.of(seed);
    List<String> failed = new ArrayList<>();
    List<Event> events;
    Oracle oracle;
    try {
      events = Trace.read("schedule", lines);
      oracle = new Oracle(events);
    } catch (Exception e) {
      return List.of("seed " + seed + ": " + e);
    }
    for (String job : JOBS) {
      List<String> found = differences(job, lines, events, oracle);
      if (!found.isEmpty()) {
        failed.add("seed " + seed + ", " + job + ": " + found.size() + ": " + found.get(0));
        failed.addAll(smaller(job, lines));
      }
    }
    return failed;
  }

  private static List<String> differences(
      String job, List<String> lines, List<Event> events, Oracle oracle) {
    try {
      return oracle.differences(
          job, TraceJobs.run(lines, Reading.of(events), TraceJobs.BY_FOLDER.get(job), Set.of()));
    } catch (Exception e) {
      return List.of("the job fell: " + e + " at " + e.getStackTrace()[0]);
    }
  }

  /** About the fewest lines that still fail: leaves out halves, then quarters, and so on. */
  private static List<String> smaller(String job, List<String> lines) {
    List<String> smallest = lines;
    for (int length = lines.size() / 2; length >= 1; length /= 2) {
      for (int from = 0; from < smallest.size(); ) {
        List<String> fewer = new ArrayList<>();
        for (int i = 0; i < smallest.size(); i++) {
          if (i < from || i >= from + length || smallest.get(i).matches(KEPT)) {
            fewer.add(smallest.get(i));
          }
        }
        if (fewer.size() < smallest.size() && fails(job, fewer)) {
          smallest = fewer;
        } else {
          from += length;
        }
      }
    }
    return smallest;
  }

  private static boolean fails(String job, List<String> lines) {
    List<Event> events;
    try {
      events = Trace.read("schedule", lines);
    } catch (IOException e) {
      return false; // a line that needs one that was left out
    }
    try {
      return !differences(job, lines, events, new Oracle(events)).isEmpty();
    } catch (Exception e) {
      return true;
    }
  }
}
