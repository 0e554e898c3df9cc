package io.weir.jobs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.Trace.Event;
import io.weir.jobs.TraceJobs.Job;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/** Where finished windows hold too much, the oldest gives up detail, and the others keep theirs. */
class OldestFirstTest {
  private static final int FLOWS = 6_400;

  /** Room for the flows of two and a half finished windows. */
  private static final int MAX_ENTRIES = 2 * FLOWS * 4 * 26 / 10;

  private final Random random = new Random(1);

  private String flows(int count) {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < count; i++) {
      int packets = 1 + random.nextInt(9);
      text.append(" %s>%s/17 %d,%d,0,0".formatted(end(10), end(172), packets, packets * 100));
    }
    return text.toString();
  }

  private String end(int first) {
    int[] rest = random.ints(3, 1, 255).toArray();
    return "%d.%d.%d.%d:%d".formatted(first, rest[0], rest[1], rest[2], 1 + random.nextInt(60_000));
  }

  @Test
  void lateDataFindsAllFlowsOfTheNewestWindow() throws Exception {
    List<String> trace = new ArrayList<>(List.of("0 probe alpha"));
    for (int start = 0; start < 90; start += 10) {
      if (start % 30 == 0) {
        trace.add(start + 1 + " batch alpha/0" + flows(FLOWS));
      }
      trace.add(start + 10 + " close alpha/0");
    }
    for (int start : new int[] {0, 60}) {
      trace.add("110 to alpha/0 " + start);
      trace.add("110 batch alpha/0" + flows(1));
    }
    trace.add("130 now");
    List<String> lines = new ArrayList<>();
    try (Job job = TraceJobs.BY_FOLDER.get("topn").make(MAX_ENTRIES)) {
      for (Event event : Trace.read("trace", trace)) {
        job.happen(event, lines);
      }
    }
    Map<String, Long> errors = new TreeMap<>();
    for (String line : lines) {
      Map<String, String> row = Oracle.row(line, "top_flows");
      if (row != null && Oracle.number(row, "version") > 1) {
        errors.merge(row.get("ts"), Oracle.number(row, "error_octets"), Math::max);
      }
    }
    assertEquals(Set.of("00:00:00Z", "00:01:00Z"), errors.keySet());
    assertTrue(errors.get("00:00:00Z") > 0, errors::toString);
    assertEquals(0, errors.get("00:01:00Z"));
  }
}
