package io.weir.jobs.window;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.Stage;
import io.weir.jobs.table.TableRow;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
import org.junit.jupiter.api.Test;

/** Digests take memory for as long as late data may come, and no longer. */
class MergeFunctionTest {
  @Test
  void digestsAreForgottenWhenEveryBucketHasSentItsLast() throws Exception {
    try (Stage<Digest, TableRow> merge =
        Stage.keyed(
            () ->
                new KeyedProcessOperator<>(
                    new MergeFunction(WindowStages.WINDOW, digests -> List.of())),
            MergeFunction::key,
            Types.STRING,
            TableRow.TYPE)) {
      for (int bucket : Buckets.IDS) {
        merge.give(Digest.of(0, "alpha", 0, bucket, 1, 1, new long[] {bucket}));
      }
      for (int bucket : Buckets.IDS) {
        assertTrue(merge.stateEntries() > 0);
        merge.give(Digest.last(0, "alpha", 0, bucket));
      }
      assertEquals(0, merge.stateEntries());
    }
  }
}
