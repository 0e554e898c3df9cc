package io.weir.jobs.health;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.weir.jobs.Stage;
import io.weir.jobs.alerts.AlertMessage;
import io.weir.jobs.ledger.RunEvents;
import io.weir.jobs.message.LedgerEvent;
import io.weir.proto.Alert;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.junit.jupiter.api.Test;

/** The health of a worker whose runs have epochs that a wrong clock made. */
class WorkerHealthTest {
  private final RunEvents events = new RunEvents();

  /** The alerts in the end: reason, and when each began and ended (s, 0: it is open). */
  private List<String> alerts(int until) throws Exception {
    List<Alert> newest = new ArrayList<>();
    try (var health =
        Stage.keyed(HealthStages::operator, LedgerEvent::probe, Types.STRING, AlertMessage.TYPE)) {
      for (AlertMessage alert : events.play(until, health, 7)) {
        newest.removeIf(one -> one.getId().equals(alert.alert().getId()));
        newest.add(alert.alert());
      }
    }
    return newest.stream()
        .map(
            alert ->
                alert.getReason()
                    + " "
                    + seconds(alert.getOpenedMs())
                    + " "
                    + seconds(alert.getClosedMs()))
        .toList();
  }

  private static long seconds(long ms) {
    return ms == 0 ? 0 : (ms - RunEvents.BASE_MS) / 1000;
  }

  @Test
  void aSilentProbeIsAnAlertIfItsEpochIsLowerThanTheOneBefore() throws Exception {
    events.lowerEpoch(false);
    assertEquals(List.of("probe_silent 601 0"), alerts(3_000));
  }

  @Test
  void anAgentThatStoppedInOrderIsNotSilentIfItsEpochIsLower() throws Exception {
    events.lowerEpoch(true);
    assertEquals(List.of(), alerts(3_000));
  }

  /** For a minute its messages count as leftovers; that is no gap. */
  @Test
  void anAgentThatWasKilledAndIsBackAtOnceWithALowerEpochLostNothing() throws Exception {
    events.run(RunEvents.AHEAD).sends(0, 300);
    events.run(301).sends(300, 590).interval(590, 590, true);
    assertEquals(List.of(), alerts(3_000));
  }

  @Test
  void leftoversOfAnOlderRunTakeNoStopBack() throws Exception {
    events.leftovers();
    assertEquals(
        List.of(),
        alerts(6_000).stream().filter(alert -> alert.startsWith("probe_silent")).toList());
  }

  @Test
  void anAgentThatWasKilledAndStopsSoonAfterWithALowerEpochIsNotSilent() throws Exception {
    events.run(RunEvents.AHEAD).sends(0, 300);
    events.run(302).interval(300, 303, true);
    assertEquals(List.of(), alerts(3_000));
  }

  /** The closing record with which the first run stopped comes late. */
  @Test
  void leftoversOfARunWithAHigherEpochAreNoStop() throws Exception {
    RunEvents.Run first = events.run(RunEvents.AHEAD).sends(0, 290);
    events.run(302).sends(300, 310);
    first.interval(290, 341, true);
    assertEquals(List.of("probe_silent 311 0"), alerts(3_000));
  }

  @Test
  void leftoversOfAnOlderRunDoNotEndASilence() throws Exception {
    RunEvents.Run first = events.run(1).sends(0, 300);
    events.run(301).sends(300, 590);
    first.interval(300, 4_800, false);
    assertEquals(List.of("probe_silent 591 0"), alerts(6_000));
  }
}
