package io.weir.jobs.window;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.weir.jobs.Agent;
import io.weir.jobs.Stage;
import io.weir.jobs.enrich.DeclaredLookups;
import io.weir.jobs.enrich.Enrich;
import io.weir.jobs.message.Accepted;
import io.weir.proto.FlowMessage;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
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
      load.enrolled(IntStream.range(0, probes).mapToObj(probe -> "site-" + probe).toList());
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
          Accepted accepted = new Accepted(ofProbe.get(number), null, null, 0, BASE_MS);
          load.message(enrich.give(accepted).get(0));
          load.barrier();
        }
      }
      load.flush(false);
      return load.entries();
    }
  }

  /** Entries of a window that is kept for late data alone, of this many flows to one host. */
  private static long finished(int flows, int maxEntries) throws Exception {
    DeclaredLookups known = new DeclaredLookups();
    try (ProgressLoad load = new ProgressLoad(maxEntries);
        Stage<Accepted, Accepted> enrich =
            Stage.of(() -> new ProcessOperator<>(new Enrich(known.factory())), Accepted.TYPE)) {
      load.time(BASE_MS);
      load.enrolled(List.of("site"));
      Agent agent = new Agent("site", 0, 1, BASE_MS * 1000, 10_000).distinct(1_000_000);
      for (FlowMessage message : agent.interval(BASE_MS, flows, 500, true)) {
        FlowMessage.Builder toOne = message.toBuilder();
        if (toOne.hasBatch()) {
          toOne
              .getBatchBuilder()
              .getFlowsBuilderList()
              .forEach(flow -> flow.setDstAddr(ByteString.copyFrom(new byte[] {10, 9, 9, 9})));
        }
        load.message(enrich.give(new Accepted(toOne.build(), null, null, 0, BASE_MS)).get(0));
      }
      load.barrier();
      load.flush(false);
      load.flush(true);
      long digests = 0;
      for (int second = 1; second < 90; second++) {
        digests += load.time(BASE_MS + second * 1_000L);
      }
      assertTrue(digests > 0, "the window has ended");
      return load.entries();
    }
  }

  /** Late data for a small window finds its flows, even if one host of another has many. */
  @Test
  void finishedWindowsKeepTheirFlowsWhileThereIsRoom() throws Exception {
    int flows = 2_000;
    assertEquals(finished(flows, 64 * 100_000), finished(flows, 64 * 400));
    assertTrue(finished(flows, 64 * 200) <= 64 * 200 / 4, "keeps a quarter of the bound at most");
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
