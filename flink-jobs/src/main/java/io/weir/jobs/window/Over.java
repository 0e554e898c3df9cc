package io.weir.jobs.window;

import io.weir.jobs.message.RangeSet;
import io.weir.jobs.operator.KeyedValue;
import io.weir.jobs.serde.FieldSerializer;
import java.io.IOException;
import java.util.HashMap;
import org.apache.flink.api.common.functions.RuntimeContext;

/** The windows (by number) of a bucket that are over for good: data for them comes too late. */
final class Over {
  private static final int MAX_RANGES = 1000;

  /** By probe; the empty name stands for all probes together. */
  private final HashMap<String, RangeSet> windows = new HashMap<>();

  /** The value of a function's bucket, kept once a window is over. */
  static KeyedValue<Over> state(RuntimeContext runtime) {
    return new KeyedValue<>(runtime, "over", new FieldSerializer<>(Over.class));
  }

  /** The kept value, or an empty one. */
  static Over of(KeyedValue<Over> state) throws IOException {
    Over over = state.get();
    return over == null ? new Over() : over;
  }

  boolean has(String probe, long number) {
    RangeSet set = windows.get(probe);
    return set != null && set.contains(number);
  }

  /**
   * Forgets the probes that have been removed, if it knows more probes than there are.
   *
   * @return whether it has forgotten any
   */
  boolean forget(Progress progress) {
    return progress.hasList()
        && windows.size() > 1 + progress.known()
        && windows.keySet().removeIf(probe -> !probe.isEmpty() && !progress.knows(probe));
  }

  void add(String probe, long number) {
    windows.computeIfAbsent(probe, key -> new RangeSet(MAX_RANGES)).add(number);
  }
}
