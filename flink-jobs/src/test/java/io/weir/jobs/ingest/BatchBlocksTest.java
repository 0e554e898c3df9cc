package io.weir.jobs.ingest;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.weir.jobs.Agent;
import io.weir.jobs.Stage;
import io.weir.jobs.enrich.DeclaredLookups;
import io.weir.jobs.enrich.Enrich;
import io.weir.jobs.message.Accepted;
import io.weir.jobs.sink.NativeBlock;
import io.weir.proto.FlowMessage;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.streaming.api.operators.ProcessOperator;
import org.junit.jupiter.api.Test;

class BatchBlocksTest {
  private static final long START = 1_767_225_600_000L;

  @Test
  void recordsOfAFullBlockAndOfTheRestAreRows() throws Exception {
    int records = 40_000;
    Agent agent = new Agent("alpha", 0, 1, START * 1000, 10_000);
    DeclaredLookups known = new DeclaredLookups();
    List<NativeBlock> full = new ArrayList<>();
    List<NativeBlock> rest;
    try (Stage<Accepted, Accepted> enrich =
            Stage.of(() -> new ProcessOperator<>(new Enrich(known.factory())), Accepted.TYPE);
        Stage<Accepted, NativeBlock> flows = Stage.of(BatchBlocks::new, NativeBlock.TYPE)) {
      for (FlowMessage message : agent.interval(START, records, 500, false)) {
        full.addAll(
            flows.giveAll(enrich.give(new Accepted(message, null, null, 0, START + 10_000))));
      }
      rest = flows.barrier();
    }
    int inFull = full.stream().mapToInt(NativeBlock::rows).sum();
    assertEquals(2, full.size());
    assertEquals(records, inFull + rest.stream().mapToInt(NativeBlock::rows).sum());
  }
}
