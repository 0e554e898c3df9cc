package io.weir.jobs.window;

import io.weir.jobs.Stage;
import io.weir.jobs.message.Accepted;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;

/** The buckets of the windows with a job that does nothing with their flows. */
public final class ProgressLoad implements AutoCloseable {
  private static final Duration WINDOW = Duration.ofSeconds(30);

  private final Stage<Accepted, WindowMessage> scatter =
      Stage.of(() -> new Scatter(WINDOW), WindowMessage.TYPE);
  private final WindowFunction function;
  private final Stage<WindowMessage, Digest> buckets;
  private final List<WindowMessage> waiting = new ArrayList<>();

  /** Creates the buckets, with a bound on the entries of all windows. */
  public ProgressLoad(int maxEntries) throws Exception {
    function =
        new WindowFunction(
            WINDOW,
            Duration.ofSeconds(15),
            Duration.ofSeconds(10),
            maxEntries,
            List.of(flows -> new long[0]),
            WINDOW);
    buckets =
        Stage.keyed(
            () -> new KeyedProcessOperator<>(function),
            WindowMessage::bucket,
            Types.INT,
            Digest.TYPE);
  }

  /** States the enrolled probes. */
  public void enrolled(List<String> probes) throws Exception {
    for (int bucket : Buckets.IDS) {
      buckets.give(
          WindowMessage.enrolled(bucket, String.join("\n", probes), new long[1 + probes.size()]));
    }
  }

  /** Processes a message; messages for the buckets wait. */
  public void message(Accepted message) throws Exception {
    waiting.addAll(scatter.give(message));
  }

  /** The output that a barrier triggers waits, too. */
  public void barrier() throws Exception {
    waiting.addAll(scatter.barrier());
  }

  /**
   * Delivers the waiting marks, or all other waiting messages, to the buckets; returns their
   * number.
   */
  public int flush(boolean marks) throws Exception {
    int count = 0;
    for (WindowMessage message : waiting) {
      if (isMark(message) == marks) {
        buckets.give(message);
        count++;
      }
    }
    waiting.removeIf(message -> isMark(message) == marks);
    return count;
  }

  private static boolean isMark(WindowMessage message) {
    return message.kind() == WindowMessage.Kind.MARK || message.kind() == WindowMessage.Kind.READ;
  }

  /** Lets the buckets' timers fire; returns the number of digests. */
  public int time(long ms) throws Exception {
    scatter.time(ms);
    return buckets.time(ms).size();
  }

  /** Entries of all windows. */
  public long entries() {
    return function.entries();
  }

  public List<Stage<?, ?>> stages() {
    return List.of(scatter, buckets);
  }

  @Override
  public void close() throws Exception {
    scatter.close();
    buckets.close();
  }
}
