package io.weir.jobs.health;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import io.weir.jobs.alerts.AlertMessage;
import io.weir.jobs.message.Enrolment;
import io.weir.proto.Alert;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.KeyedOneInputStreamOperatorTestHarness;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class CheckpointFunctionTest {
  private static final long BASE = 1_767_225_600_000L;

  private KeyedOneInputStreamOperatorTestHarness<Integer, Enrolment, AlertMessage> jobs;

  /** Starts the jobs, from a state or none, at so many seconds. */
  private void start(OperatorSubtaskState from, long seconds) throws Exception {
    jobs =
        new KeyedOneInputStreamOperatorTestHarness<>(
            new KeyedProcessOperator<>(new CheckpointFunction()), enrolment -> 0, Types.INT);
    jobs.setup(AlertMessage.TYPE.createSerializer(jobs.getExecutionConfig().getSerializerConfig()));
    jobs.setProcessingTime(BASE + 1000 * seconds);
    if (from != null) {
      jobs.initializeState(from);
    }
    jobs.open();
    jobs.processElement(new StreamRecord<>(new Enrolment(BASE, List.of())));
  }

  private List<Alert> until(long seconds) throws Exception {
    jobs.getOutput().clear();
    jobs.setProcessingTime(BASE + 1000 * seconds);
    return jobs.extractOutputValues().stream().map(AlertMessage::alert).toList();
  }

  @AfterEach
  void stop() throws Exception {
    jobs.close();
  }

  @Test
  void anAlertOpensWhenNoCheckpointCompletesAndTheNextOneClosesIt() throws Exception {
    start(null, 0);
    jobs.snapshot(1, 0);
    jobs.notifyOfCompletedCheckpoint(1);
    assertEquals(List.of(), until(250));
    jobs.snapshot(2, 0);
    jobs.notifyOfCompletedCheckpoint(2);
    assertEquals(List.of(), until(540), "the second one is 290 s old");
    jobs.snapshot(3, 0); // and never completes
    List<Alert> opened = until(550);
    assertEquals(List.of("checkpoints_failing"), opened.stream().map(Alert::getReason).toList());
    assertEquals("", opened.get(0).getProbe());
    assertEquals(BASE + 250_000, opened.get(0).getOpenedMs());
    assertEquals(300_000.0, opened.get(0).getValuesOrThrow("checkpoint_age_ms"));
    jobs.snapshot(4, 0);
    jobs.notifyOfCompletedCheckpoint(4);
    List<Alert> closed = until(570);
    assertEquals(1, closed.size());
    assertEquals(opened.get(0).getId(), closed.get(0).getId());
    assertNotEquals(0, closed.get(0).getClosedMs());
    assertEquals(List.of(), until(800));
  }

  @Test
  void jobsThatRestartWithoutACheckpointSendTheSameAlert() throws Exception {
    start(null, 0);
    OperatorSubtaskState state = jobs.snapshot(1, 0);
    jobs.notifyOfCompletedCheckpoint(1);
    String id = until(300).get(0).getId();
    jobs.close();
    start(state, 400);
    assertEquals(List.of(), until(450), "the first checkpoint may take a minute");
    List<Alert> again = until(460);
    assertEquals(List.of(id), again.stream().map(Alert::getId).toList());
  }

  @Test
  void jobsThatWereDownForHoursAndCompleteACheckpointHaveNoAlert() throws Exception {
    start(null, 0);
    OperatorSubtaskState state = jobs.snapshot(1, 0);
    jobs.close();
    start(state, 20_000);
    assertEquals(List.of(), until(20_030));
    jobs.snapshot(2, 0);
    jobs.notifyOfCompletedCheckpoint(2);
    assertEquals(List.of(), until(20_200));
  }
}
