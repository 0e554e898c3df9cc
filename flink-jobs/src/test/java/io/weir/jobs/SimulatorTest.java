package io.weir.jobs;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.weir.jobs.Trace.Event;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * The jobs on schedules that nobody wrote ({@link Schedule}), held against plain sums ({@link
 * Oracle}): one process, no clock, no sleep. {@code make simulate SEEDS=1000} runs more of them; a
 * seed that fails is made smaller and printed as a trace.
 */
class SimulatorTest {
  private static final List<String> JOBS = List.of("ingest", "topn", "indicators", "mixes");

  /** Lines that a schedule is not made smaller by. */
  private static final String KEPT =
      "\\S+ (probe|declare|prefix|to|now|checkpoint|crash|window-entries)\\b.*";

  @Test
  @Tag("engine")
  void everySchedule() throws Exception {
    long first = Long.getLong("weir.seed", 1);
    long seeds = Long.getLong("weir.seeds", 200);
    List<String> failed = new ArrayList<>();
    for (long seed = first; seed < first + seeds; seed++) {
      List<String> lines = Schedule.of(seed);
      for (String job : JOBS) {
        List<String> found = differences("seed " + seed, job, lines);
        if (!found.isEmpty()) {
          failed.add("seed " + seed + ", " + job + ": " + found.size() + ": " + found.get(0));
          if (failed.size() == 1) {
            failed.add(String.join("\n", smaller(seed, job, lines)));
          }
        }
      }
    }
    assertEquals("", String.join("\n", failed));
  }

  private static List<String> differences(String name, String job, List<String> lines)
      throws Exception {
    List<Event> events = Trace.read(name, lines);
    TraceJobs.Outcome outcome;
    try {
      outcome = TraceJobs.run(lines, TraceJobs.BY_FOLDER.get(job), Set.of());
    } catch (Exception e) {
      return List.of("the job fell: " + e + " at " + e.getStackTrace()[0]);
    }
    return new Oracle(events).differences(job, outcome);
  }

  /** The fewest lines, about, that still fail: halves are left out, then quarters, and so on. */
  private static List<String> smaller(long seed, String job, List<String> lines) {
    List<String> smallest = lines;
    for (int length = lines.size() / 2; length >= 1; length /= 2) {
      for (int from = 0; from < smallest.size(); ) {
        List<String> fewer = new ArrayList<>();
        for (int i = 0; i < smallest.size(); i++) {
          if (i < from || i >= from + length || smallest.get(i).matches(KEPT)) {
            fewer.add(smallest.get(i));
          }
        }
        if (fewer.size() < smallest.size() && fails(seed, job, fewer)) {
          smallest = fewer;
        } else {
          from += length;
        }
      }
    }
    return smallest;
  }

  private static boolean fails(long seed, String job, List<String> lines) {
    try {
      return !differences("seed " + seed, job, lines).isEmpty();
    } catch (IOException e) {
      return false; // a line that needs one that was left out
    } catch (Exception e) {
      return true;
    }
  }
}
