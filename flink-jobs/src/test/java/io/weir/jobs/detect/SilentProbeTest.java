package io.weir.jobs.detect;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.weir.jobs.Stage;
import io.weir.jobs.alerts.AlertMessage;
import io.weir.jobs.enrich.DeclaredLookups;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
import org.junit.jupiter.api.Test;

/** A probe that says nothing more keeps an event open, but not for ever. */
class SilentProbeTest {
  private static final long START_MS = 1_767_225_600_000L;

  @Test
  void anEventClosesWhenItsProbeHasBeenSilent() throws Exception {
    long[] flood = {
      2, Subject.Kind.HOST.ordinal(), 0, 0xffff_0a00_0050L, 8, 5000, 0, 0, 0, 0, 0, 1, 80
    };
    try (Stage<Seen, AlertMessage> judge =
        Stage.keyed(
            () -> new KeyedProcessOperator<>(new Judge(new DeclaredLookups().factory())),
            Seen::bucket,
            Types.INT,
            AlertMessage.TYPE)) {
      judge.time(START_MS + 10_000);
      Seen.Part part = new Seen.Part("alpha", START_MS, 10_000, flood);
      List<AlertMessage> told = judge.give(new Seen(0, List.of(part), List.of(), new long[0]));
      assertEquals(1, told.size());
      assertEquals("syn_flood", told.get(0).alert().getReason());
      assertEquals(List.of(), judge.time(START_MS + 10_000 + Judge.SILENT_MS - 30_000));
      told = judge.time(START_MS + 10_000 + Judge.SILENT_MS + 30_000);
      assertEquals(1, told.size());
      assertEquals(START_MS + 10_000, told.get(0).alert().getClosedMs());
      judge.time(START_MS + 2 * Judge.REMEMBERED_MS);
      judge.time(START_MS + 3 * Judge.REMEMBERED_MS);
      assertEquals(0, judge.stateEntries());
    }
  }
}
