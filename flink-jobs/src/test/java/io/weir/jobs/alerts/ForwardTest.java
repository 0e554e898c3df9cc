package io.weir.jobs.alerts;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.Stage;
import io.weir.jobs.message.RawMessage;
import io.weir.proto.Alert;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.streaming.api.operators.StreamFlatMap;
import org.junit.jupiter.api.Test;

class ForwardTest {
  private static final long BASE_MS = 1_767_225_600_000L;

  private static RawMessage message(String probe, long offset, long appended) {
    Alert alert = Alert.newBuilder().setMajor(1).setProbe(probe).setId("7").build();
    return new RawMessage("weir.alerts." + probe, 0, offset, appended, alert.toByteArray());
  }

  private static Stage<RawMessage, AlertMessage> forward() throws Exception {
    return Stage.of(() -> new StreamFlatMap<>(new Forward()), AlertMessage.TYPE);
  }

  @Test
  void noProbeWritesIntoAnotherAlert() throws Exception {
    try (Stage<RawMessage, AlertMessage> forward = forward()) {
      List<String> ids = new ArrayList<>();
      for (String probe : List.of("alpha", "beta")) {
        for (AlertMessage sent : forward.give(message(probe, 40, BASE_MS))) {
          ids.add(sent.alert().getId());
          assertEquals(41, sent.version());
        }
      }
      assertEquals(List.of("alpha:7", "beta:7"), ids);
    }
  }

  @Test
  void aFloodOfOneProbeLeavesRoomForTheOthers() throws Exception {
    try (Stage<RawMessage, AlertMessage> forward = forward()) {
      int sent = 0;
      for (int i = 0; i < 5_000; i++) {
        sent += forward.give(message("alpha", i, BASE_MS + i)).size();
      }
      assertEquals(Forward.PER_MINUTE, sent);
      assertEquals(1, forward.give(message("beta", 0, BASE_MS)).size());
      assertEquals(1, forward.give(message("alpha", 5_000, BASE_MS + 60_000)).size());
    }
  }

  @Test
  void aBacklogIsNoFlood() throws Exception {
    try (Stage<RawMessage, AlertMessage> forward = forward()) {
      for (int i = 0; i < 5_000; i++) {
        assertTrue(!forward.give(message("alpha", i, BASE_MS + 1_000L * i)).isEmpty());
      }
    }
  }
}
