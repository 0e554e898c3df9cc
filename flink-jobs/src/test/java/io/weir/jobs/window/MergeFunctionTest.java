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
  private static Stage<Digest, TableRow> merge() throws Exception {
    return Stage.keyed(
        () ->
            new KeyedProcessOperator<>(
                new MergeFunction(WindowStages.WINDOW, digests -> List.of())),
        MergeFunction::key,
        Types.STRING,
        TableRow.TYPE);
  }

  @Test
  void digestsAreForgottenWhenEveryBucketHasSentItsLast() throws Exception {
    try (Stage<Digest, TableRow> merge = merge()) {
      for (int bucket : Buckets.IDS) {
        merge.give(Digest.of(0, "alpha", 0, bucket, 1, 1, new long[] {bucket}));
      }
      // Some send new data first, for which the merge waits.
      merge.give(Digest.of(0, "alpha", 0, Buckets.IDS[1], 1, 1, new long[] {7}));
      for (int bucket : Buckets.IDS) {
        assertTrue(merge.stateEntries() > 0);
        merge.give(Digest.last(0, "alpha", 0, bucket));
      }
      assertEquals(0, merge.stateEntries());
    }
  }

  /** A bucket without data of a window sends nothing about it. */
  @Test
  void digestsThatOthersNeverFollowAreForgottenAfterSomeMinutes() throws Exception {
    long now = 1_767_225_600_000L;
    try (Stage<Digest, TableRow> merge = merge()) {
      merge.time(now);
      merge.give(Digest.of(0, "alpha", 0, Buckets.IDS[0], 1, 1, new long[] {1}));
      for (int minute = 1; minute <= MergeFunction.KEEP_MINUTES; minute++) {
        assertTrue(merge.stateEntries() > 0);
        merge.time(now + minute * MergeFunction.MINUTE_MS);
      }
      assertEquals(0, merge.stateEntries());
    }
  }
}
