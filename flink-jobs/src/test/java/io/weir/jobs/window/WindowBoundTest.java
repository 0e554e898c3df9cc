package io.weir.jobs.window;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.Agent;
import io.weir.jobs.Stage;
import io.weir.jobs.enrich.DeclaredLookups;
import io.weir.jobs.enrich.Enrich;
import io.weir.jobs.message.Accepted;
import io.weir.proto.FlowMessage;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.streaming.api.operators.ProcessOperator;
import org.junit.jupiter.api.Test;

/** The bound on the flows of all windows holds for many probes and windows as for one. */
class WindowBoundTest {
  private static final long BASE_MS = 1_767_225_600_000L;
  private static final long WINDOW_MS = 30_000;
  private static final int RECORDS = 40_000;
  private static final int MAX_ENTRIES = 64 * 400;

  /** Entries of open windows in which this many probes together sent all records. */
  private static long entries(int probes, int windows, int maxEntries) throws Exception {
    DeclaredLookups known = new DeclaredLookups();
    try (ProgressLoad load = new ProgressLoad(maxEntries);
        Stage<Accepted, Accepted> enrich =
            Stage.of(() -> new ProcessOperator<>(new Enrich(known.factory())), Accepted.TYPE)) {
      load.time(BASE_MS);
      load.enrolled(probes);
      List<List<FlowMessage>> messages = new ArrayList<>();
      for (int probe = 0; probe < probes; probe++) {
        Agent agent = new Agent("site-" + probe, 0, 1, BASE_MS * 1000 + probe, 10_000);
        agent.distinct(1_000_000);
        List<FlowMessage> all = new ArrayList<>();
        for (int window = 0; window < windows; window++) {
          long start = BASE_MS + window * WINDOW_MS;
          all.addAll(agent.interval(start, RECORDS / probes / windows, 50, false));
        }
        messages.add(all);
      }
      for (int number = 0; number < messages.get(0).size(); number++) {
        for (List<FlowMessage> ofProbe : messages) {
          Accepted accepted = new Accepted(ofProbe.get(number), null, null, BASE_MS);
          load.message(enrich.give(accepted).get(0));
          load.barrier();
        }
      }
      load.flush(false);
      return load.entries();
    }
  }

  @Test
  void manyProbesAndWindowsTakeNoMoreRoomThanOne() throws Exception {
    assertTrue(entries(20, 2, 64 * RECORDS) > 3 * MAX_ENTRIES, "is above the bound");
    for (int probes : new int[] {1, 20}) {
      for (int windows : new int[] {1, 2}) {
        long entries = entries(probes, windows, MAX_ENTRIES);
        assertTrue(entries < 1.2 * MAX_ENTRIES, entries + " of " + probes + " probes, " + windows);
      }
    }
  }
}
