package io.weir.jobs.alerts;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.Stage;
import io.weir.jobs.message.AgentAlert;
import io.weir.proto.Alert;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
import org.junit.jupiter.api.Test;

class ForwardTest {
  private static final long BASE_MS = 1_767_225_600_000L;
  private static final long HOUR_MS = AgentAlerts.SILENT_MS;

  private static AgentAlert message(String probe, String id, long offset, long appended) {
    Alert alert =
        Alert.newBuilder()
            .setMajor(1)
            .setProbe(probe)
            .setId(id)
            .setOpenedMs(appended)
            .setText("Text.")
            .build();
    return new AgentAlert(alert, offset, appended);
  }

  private static AgentAlert over(AgentAlert open, long offset, long appended) {
    Alert alert = open.alert().toBuilder().setClosedMs(appended).build();
    return new AgentAlert(alert, offset, appended);
  }

  private static Stage<AgentAlert, AlertMessage> forward() throws Exception {
    Stage<AgentAlert, AlertMessage> stage =
        Stage.keyed(
            () -> new KeyedProcessOperator<>(new Forward()),
            AgentAlert::probe,
            Types.STRING,
            AlertMessage.TYPE);
    stage.restartAt(BASE_MS); // its clock begins there
    return stage;
  }

  private static List<String> ids(List<AlertMessage> alerts) {
    return alerts.stream().map(one -> one.alert().getId()).toList();
  }

  @Test
  void noProbeWritesIntoAnotherAlert() throws Exception {
    try (Stage<AgentAlert, AlertMessage> forward = forward()) {
      List<String> ids = new ArrayList<>();
      for (String probe : List.of("alpha", "beta")) {
        for (AlertMessage sent : forward.give(message(probe, "7", 40, BASE_MS))) {
          ids.add(sent.alert().getId());
          assertEquals(82, sent.version());
        }
      }
      assertEquals(List.of("alpha:7", "beta:7"), ids);
    }
  }

  @Test
  void aFloodOfOneProbeLeavesRoomForTheOthers() throws Exception {
    try (Stage<AgentAlert, AlertMessage> forward = forward()) {
      int sent = 0;
      for (int i = 0; i < 5_000; i++) {
        sent += forward.give(message("alpha", "7", i, BASE_MS + i)).size();
      }
      assertEquals(AgentAlerts.PER_MINUTE, sent);
      assertEquals(1, forward.give(message("beta", "7", 0, BASE_MS)).size());
      assertEquals(1, forward.give(message("alpha", "7", 5_000, BASE_MS + 60_000)).size());
    }
  }

  @Test
  void aBacklogIsNoFlood() throws Exception {
    try (Stage<AgentAlert, AlertMessage> forward = forward()) {
      for (int i = 0; i < 5_000; i++) {
        assertTrue(!forward.give(message("alpha", "7", i, BASE_MS + 1_000L * i)).isEmpty());
      }
    }
  }

  @Test
  void aProbeFillsTheStoreWithNoMoreThanItsAlertsOfADay() throws Exception {
    try (Stage<AgentAlert, AlertMessage> forward = forward()) {
      int sent = 0;
      for (int i = 0; i < 86_400; i += 4) {
        sent += forward.give(message("alpha", "7", i, BASE_MS + 1_000L * i)).size();
        if (i == 43_200) {
          forward.restart(2); // its count is part of the state
        }
      }
      assertEquals(AgentAlerts.PER_DAY, sent);
      assertEquals(1, forward.give(message("alpha", "7", 90_000, BASE_MS + 86_400_000)).size());
    }
  }

  @Test
  void anAlertOfWhichItsAgentSaysNothingMoreIsClosed() throws Exception {
    try (Stage<AgentAlert, AlertMessage> forward = forward()) {
      AgentAlert ended = message("alpha", "ended", 0, BASE_MS);
      forward.give(ended);
      forward.give(over(ended, 1, BASE_MS));
      forward.give(message("alpha", "silent", 2, BASE_MS));
      forward.give(message("alpha", "lasting", 3, BASE_MS));
      assertEquals(List.of(), forward.time(BASE_MS + HOUR_MS / 2));
      forward.give(message("alpha", "lasting", 4, BASE_MS + HOUR_MS / 2));
      List<AlertMessage> closed = forward.time(BASE_MS + HOUR_MS);
      assertEquals(List.of("alpha:silent"), ids(closed));
      assertEquals(BASE_MS, closed.get(0).alert().getClosedMs());
      assertEquals(BASE_MS + HOUR_MS, closed.get(0).alert().getUpdatedMs());
      assertEquals(
          "Over, as its agent says nothing more of it: Text.", closed.get(0).alert().getText());
      // Newer than what the agent said, older than what it may say yet.
      assertEquals(7, closed.get(0).version());
      assertEquals(8, forward.give(message("alpha", "silent", 3, BASE_MS)).get(0).version());
      assertEquals(List.of("alpha:lasting"), ids(forward.time(BASE_MS + 2 * HOUR_MS - 1)));
    }
  }

  @Test
  void whileTheJobsAreDownNoAlertIsSilent() throws Exception {
    try (Stage<AgentAlert, AlertMessage> forward = forward()) {
      forward.give(message("alpha", "7", 0, BASE_MS));
      forward.restartAt(BASE_MS + 10 * HOUR_MS);
      assertEquals(List.of(), forward.time(BASE_MS + 10 * HOUR_MS));
      assertEquals(List.of("alpha:7"), ids(forward.time(BASE_MS + 11 * HOUR_MS)));
    }
  }

  @Test
  void anAgentHasABoundedNumberOfOpenAlertsAndLeavesNothingBehind() throws Exception {
    try (Stage<AgentAlert, AlertMessage> forward = forward()) {
      List<AlertMessage> closed = new ArrayList<>();
      for (int i = 0; i < AgentAlerts.MAX_OPEN + 3; i++) {
        forward.time(BASE_MS + i);
        closed.addAll(forward.give(message("alpha", Integer.toString(i), i, BASE_MS)));
      }
      closed.removeIf(one -> one.alert().getClosedMs() == 0);
      assertEquals(List.of("alpha:0", "alpha:1", "alpha:2"), ids(closed));
      assertEquals(AgentAlerts.MAX_OPEN, forward.time(BASE_MS + 2 * HOUR_MS).size());
      for (int hour = 3; hour < 27; hour++) {
        assertEquals(List.of(), forward.time(BASE_MS + hour * HOUR_MS));
      }
      assertEquals(0, forward.stateEntries());
    }
  }
}
