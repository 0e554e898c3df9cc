package io.weir.jobs.health;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.weir.jobs.alerts.AlertMessage;
import io.weir.jobs.message.Enrolment;
import io.weir.proto.Alert;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.KeyedOneInputStreamOperatorTestHarness;
import org.junit.jupiter.api.Test;

class ClockHealthTest {
  private static final long BASE = 1_767_225_600_000L;
  private static final long AHEAD = 7_200_000;

  @Test
  void theAlertIsOpenWhileMessagesShowThatTheClockIsAhead() throws Exception {
    try (KeyedOneInputStreamOperatorTestHarness<Integer, Enrolment, AlertMessage> jobs =
        new KeyedOneInputStreamOperatorTestHarness<>(
            new KeyedProcessOperator<>(new ClockHealth()), list -> 0, Types.INT)) {
      jobs.setup(
          AlertMessage.TYPE.createSerializer(jobs.getExecutionConfig().getSerializerConfig()));
      jobs.open();
      long[] ahead = {0, Enrolment.UNSURE, AHEAD, AHEAD, Enrolment.UNSURE, 0};
      for (int i = 0; i < ahead.length; i++) {
        long at = BASE + 5_000L * i + Math.max(0, ahead[i]);
        jobs.processElement(new StreamRecord<>(new Enrolment(at, List.of(), ahead[i])));
      }
      List<Alert> told = jobs.extractOutputValues().stream().map(AlertMessage::alert).toList();
      assertEquals(2, told.size());
      assertEquals("jobs_clock_ahead", told.get(0).getReason());
      assertEquals(BASE + 10_000, told.get(0).getOpenedMs());
      assertEquals(7_200_000.0, told.get(0).getValuesOrThrow("ahead_ms"));
      assertEquals(told.get(0).getId(), told.get(1).getId());
      assertEquals(BASE + 25_000, told.get(1).getClosedMs());
    }
  }
}
