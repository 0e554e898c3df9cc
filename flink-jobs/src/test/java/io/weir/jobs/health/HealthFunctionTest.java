package io.weir.jobs.health;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import io.weir.jobs.Stage;
import io.weir.jobs.alerts.AlertMessage;
import io.weir.jobs.ledger.LedgerStages;
import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.LedgerEvent;
import io.weir.proto.Alert;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class HealthFunctionTest {
  private static final long BASE = 1_767_225_600_000L;

  private Stage<LedgerEvent, AlertMessage> health;
  private final List<AlertMessage> alerts = new ArrayList<>();

  @BeforeEach
  void start() throws Exception {
    health =
        Stage.keyed(HealthStages::operator, LedgerEvent::probe, Types.STRING, AlertMessage.TYPE);
  }

  @AfterEach
  void stop() throws Exception {
    health.close();
  }

  /** Kafka answers every 5 s: the probe has one partition, which stays empty. */
  private void answers(long fromSeconds, long toSeconds) throws Exception {
    for (long at = BASE + 1000 * fromSeconds; at < BASE + 1000 * toSeconds; at += 5_000) {
      alerts.addAll(health.time(at));
      Enrolment.Probe probe = new Enrolment.Probe("alpha", new long[1], new long[1]);
      for (LedgerEvent event : LedgerStages.enrolled(new Enrolment(at, List.of(probe)))) {
        alerts.addAll(health.give(event));
      }
    }
  }

  @Test
  void anOpenAlertIsToldOfEveryFiveMinutes() throws Exception {
    answers(0, 1_000);
    List<Long> told = alerts.stream().map(alert -> alert.alert().getUpdatedMs() - BASE).toList();
    assertEquals(List.of(60_000L, 360_000L, 660_000L, 960_000L), told);
    assertEquals(1, alerts.stream().map(alert -> alert.alert().getId()).distinct().count());
    assertEquals(960_000.0, alerts.get(3).alert().getValuesOrThrow("silent_ms"));
  }

  @Test
  void theSameAnswerTwiceIsOneCheck() throws Exception {
    for (int i = 0; i < 3; i++) {
      answers(0, 5);
      answers(55, 60);
    }
    assertEquals(List.of(), alerts); // two checks are wanted
  }

  @Test
  void aProbeThatIsNotListedAnyMoreHasNoAlerts() throws Exception {
    answers(0, 100);
    alerts.clear();
    alerts.addAll(health.time(BASE + 3_000_000));
    assertEquals(List.of(), alerts);
    alerts.addAll(health.time(BASE + 3_700_000));
    alerts.addAll(health.time(BASE + 7_300_000));
    assertEquals(1, alerts.size());
    assertNotEquals(0, alerts.get(0).alert().getClosedMs());
  }

  @Test
  void jobsThatWereDownForHoursForgetNobody() throws Exception {
    answers(0, 100);
    alerts.clear();
    health.restartAt(BASE + 20_000_000);
    alerts.addAll(health.time(BASE + 20_000_000));
    assertEquals(List.of(), alerts);
    answers(20_000, 20_020);
    Alert alert = alerts.get(0).alert();
    assertEquals(0, alert.getClosedMs());
    assertEquals(2, alerts.get(0).version());
  }
}
