package io.weir.jobs.window;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class RoomTest {
  private static final long SRC = 0xffff_0a000001L;
  private static final int BUCKET = Buckets.IDS[Buckets.of(0, SRC)];

  /** A window with three messages of the same 40 flows. */
  private static WindowState window() {
    WindowState.Log log = new WindowState.Log();
    for (int message = 0; message < 3; message++) {
      Packed flows = new Packed();
      for (int port = 1; port <= 40; port++) {
        long[] entry = new long[FlowTable.STRIDE];
        entry[FlowTable.SRC + 1] = SRC;
        entry[FlowTable.DST + 1] = 0xffff_0a000002L;
        entry[FlowTable.TUPLE] = 443L << 48 | (long) port << 32 | 6 << 24;
        entry[FlowTable.FWD_OCTETS] = port;
        entry[FlowTable.FWD_OCTETS + 1] = 1;
        flows.add(entry, 0);
      }
      int entries = flows.entries();
      log.add(flows.take(), entries);
    }
    WindowState window = new WindowState();
    window.probes.put("alpha", log);
    window.entries = log.entries;
    window.look = new WindowState.Look(0, 0);
    return window;
  }

  @Test
  void theFlowsThatAWindowHoldsSeveralTimesAreAddedUpFirst() {
    WindowState window = window();
    assertEquals(120, window.entries);
    assertEquals(0, Room.values()[0].make(window, null, 60, new Flows(), BUCKET), "aggregated");
    assertEquals(40, window.entries);
    WindowState.Log log = window.probes.get("alpha");
    assertEquals(40, log.entries);
    assertTrue(log.isCompact());
    assertEquals(0, log.errorOctets);
    assertEquals(0, log.sketches.length);
  }

  @Test
  void onlyThenSmallerFlowsAreAggregated() {
    WindowState window = window();
    assertTrue(Room.OPEN.make(window, null, 100, new Flows(), BUCKET) > 80);
    assertTrue(window.probes.get("alpha").errorOctets > 0);
  }
}
