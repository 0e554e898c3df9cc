package io.weir.jobs.window;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.Stage;
import io.weir.jobs.table.TableRow;
import java.time.Duration;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
import org.junit.jupiter.api.Test;

/** Sums of a version of the jobs that added up other numbers are refused, never added to. */
class SumFunctionTest {
  private static SumFunction function(int stride) {
    return new SumFunction(
        WindowStages.WINDOW,
        Duration.ofMinutes(5),
        Duration.ofSeconds(15),
        stride,
        digests -> List.of());
  }

  private static Stage<Digest, TableRow> stage(int[] stride) throws Exception {
    return Stage.keyed(
        () -> new KeyedProcessOperator<>(function(stride[0])),
        digest -> function(stride[0]).key(digest),
        Types.STRING,
        TableRow.TYPE);
  }

  private static Digest digest(long... sums) {
    return Digest.of(0, "alpha", 0, Buckets.IDS[0], 1, 1, sums);
  }

  private static void refused(Exception thrown) {
    Throwable cause = thrown;
    while (cause.getCause() != null) {
      cause = cause.getCause();
    }
    assertTrue(cause.getMessage().contains("rows of 3 numbers, not 4"), cause.toString());
  }

  @Test
  void otherSumsAreRefused() throws Exception {
    int[] stride = {3};
    try (Stage<Digest, TableRow> sums = stage(stride)) {
      sums.give(digest(1, 2, 3));
      stride[0] = 4;
      sums.restartAt(1_000);
      refused(assertThrows(Exception.class, () -> sums.give(digest(1, 2, 3, 4))));
      refused(assertThrows(Exception.class, () -> sums.time(1_000_000)));
    }
  }
}
