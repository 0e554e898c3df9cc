package io.weir.jobs.source;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.weir.jobs.Agent;
import io.weir.jobs.Stage;
import io.weir.jobs.message.Accepted;
import io.weir.jobs.message.RawMessage;
import io.weir.proto.FlowMessage;
import org.apache.flink.streaming.api.operators.ProcessOperator;
import org.junit.jupiter.api.Test;

class AcceptTest {
  private static final long BASE_MS = 1_767_225_600_000L;

  /** Each checkpoint writes the sequences anew, and not beside those of the checkpoint before. */
  @Test
  void checkpointsDoNotGrow() throws Exception {
    Agent agent = new Agent("alpha", 0, 1, BASE_MS * 1000, 10_000);
    try (Stage<RawMessage, Accepted> accept =
        Stage.of(() -> new ProcessOperator<>(new Accept()), Accepted.TYPE)) {
      for (FlowMessage message : agent.interval(BASE_MS, 10, 5, false)) {
        accept.give(
            new RawMessage(
                "weir.flows.alpha", 0, message.getSequence(), BASE_MS, message.toByteArray()));
      }
      long first = octets(accept);
      for (int i = 0; i < 5; i++) {
        assertEquals(first, octets(accept));
      }
      accept.restart(1);
      assertEquals(first, octets(accept));
    }
  }

  private static long octets(Stage<?, ?> stage) throws Exception {
    return stage.save().octets();
  }
}
