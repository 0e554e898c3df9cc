package io.weir.jobs.window;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.Stage;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
import org.junit.jupiter.api.Test;

/** What all windows of all probes hold is bounded, even if no probe and no window holds much. */
class WindowBudgetTest {
  private static final int MOST_ENTRIES = Buckets.COUNT * 1000;
  private static final int PROBES = 20;
  private static final int WINDOWS = 6;
  private static final int FLOWS = 50;
  private static final long IPV4 = 0xffffL << 32;

  private static final Duration WINDOW = WindowStages.WINDOW;

  @Test
  void manyProbesWithLittleEachStayWithinTheBudget() throws Exception {
    try (Stage<WindowMessage, Digest> buckets =
        Stage.keyed(
            () ->
                new KeyedProcessOperator<>(
                    new WindowFunction(
                        WINDOW,
                        Duration.ofSeconds(15),
                        Duration.ofSeconds(10),
                        MOST_ENTRIES,
                        List.of(flows -> new long[0]))),
            WindowMessage::bucket,
            Types.INT,
            Digest.TYPE)) {
      Random random = new Random(1);
      int sent = 0;
      for (int window = 0; window < WINDOWS; window++) {
        for (int probe = 0; probe < PROBES; probe++) {
          for (int bucket : Buckets.IDS) {
            buckets.give(part(bucket, "probe-" + probe, window * WINDOW.toMillis(), random));
            sent += FLOWS;
          }
        }
      }
      assertTrue(sent > 5 * MOST_ENTRIES, sent + " entries were sent");
      long octets = 0;
      for (OperatorSubtaskState state : buckets.save().subtasks()) {
        octets += state.getStateSize();
      }
      assertTrue(octets < MOST_ENTRIES * 64L * 5 / 4, octets + " octets of state");
    }
  }

  /** Flows of hosts that talk to one another over TCP, a SYN each. */
  private static WindowMessage part(int bucket, String probe, long window, Random random) {
    Packed packed = new Packed();
    for (int i = 0; i < FLOWS; i++) {
      long[] entry = new long[FlowTable.STRIDE];
      entry[FlowTable.SRC + 1] = IPV4 | random.nextInt(1 << 30);
      entry[FlowTable.DST + 1] = IPV4 | random.nextInt(1 << 30);
      entry[FlowTable.TUPLE] = FlowTable.tuple(1024 + random.nextInt(60_000), 443, 6, 0);
      entry[FlowTable.FWD_OCTETS] = random.nextInt(40, 1500);
      entry[FlowTable.FWD_PACKETS] = 1;
      entry[FlowTable.SYN] = 1L << 32;
      packed.add(entry, 0);
    }
    return new WindowMessage(
        WindowMessage.Kind.PART, bucket, probe, window, FLOWS, 0, packed.take(), new long[0]);
  }
}
