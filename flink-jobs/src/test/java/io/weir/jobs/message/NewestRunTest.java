package io.weir.jobs.message;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.proto.ClosingRecord;
import org.junit.jupiter.api.Test;

class NewestRunTest {
  private static final long BASE_MS = 1_767_225_600_000L;
  private static final long HIGH = 1000 * BASE_MS + 7_200_000_000L;
  private static final long LOW = 1000 * BASE_MS;

  private final NewestRun run = new NewestRun();

  private void closing(long epoch, long at, int workers, String source, boolean last) {
    ClosingRecord record =
        ClosingRecord.newBuilder().setWorkers(workers).setSource(source).setLast(last).build();
    long start = BASE_MS + at - 10_000;
    LedgerEvent event =
        new LedgerEvent(
            LedgerEvent.Kind.CLOSING,
            "alpha",
            0,
            epoch,
            0,
            start,
            10_000,
            0,
            RawMessage.NO_TIME,
            0,
            0,
            0,
            record.toByteArray());
    run.closing(event, record, BASE_MS + at);
  }

  @Test
  void aNewRunWithALowerEpochAfterAStopStatesItsWorkers() {
    closing(HIGH, 0, 4, "file:/a.pcap", true);
    assertTrue(run.isOfFile());
    closing(LOW, 1_000, 2, "af_packet:eth0", false);
    assertEquals(2, run.workers());
    assertFalse(run.isOfFile());
  }

  @Test
  void leftoversOfARunWithAHigherEpochStateNothing() {
    closing(HIGH, 0, 4, "af_packet:eth0", true);
    closing(LOW, 1_000, 2, "af_packet:eth0", false);
    closing(HIGH, 20_000, 4, "af_packet:eth0", false);
    assertEquals(2, run.workers());
  }

  @Test
  void leftoversStateNothing() {
    closing(HIGH, 0, 4, "af_packet:eth0", false);
    closing(LOW, 1_000, 2, "af_packet:eth0", false);
    assertEquals(4, run.workers());
  }
}
