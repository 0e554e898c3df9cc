package io.weir.jobs.window;

import io.weir.jobs.message.RangeSet;
import io.weir.jobs.message.Retired;
import io.weir.jobs.operator.KeyedValue;
import io.weir.jobs.serde.FieldSerializer;
import java.io.IOException;
import java.util.HashMap;
import java.util.NavigableMap;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.flink.api.common.functions.RuntimeContext;

/**
 * The windows (by number) of a bucket that are over for good: data for them is too late. And the
 * spans (by number): the longer windows that {@link SumFunction} adds up, which are over once all
 * windows in them are.
 */
final class Over {
  private static final int MAX_RANGES = 1000;

  /** How often to look for such probes, by the time that windows follow. */
  private static final long LOOK_MS = 600_000;

  /** By probe; the empty name stands for all probes together. */
  private final HashMap<String, RangeSet> windows = new HashMap<>();

  /** Likewise the spans. */
  private final HashMap<String, RangeSet> spans = new HashMap<>();

  /** The probes, or the empty name, that have sent digests for a span, by its number. */
  private final TreeMap<Long, TreeSet<String>> open = new TreeMap<>();

  /** When it last looked for removed probes. */
  private transient long looked;

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
   * Forgets the probes that have been removed and whose newest windows are older than {@link
   * Retired#LATE_MS}, if it knows more probes than there are.
   *
   * @param clock the time that windows follow, ms from 1970
   * @return whether it has forgotten any
   */
  boolean forget(Progress progress, long clock, long windowMs, long spanMs) {
    if (!progress.hasList()
        || windows.size() <= 1 + progress.known()
        || Math.abs(clock - looked) < LOOK_MS) {
      return false;
    }
    looked = clock;
    remove(spans, progress, Math.floorDiv(clock - Retired.LATE_MS, spanMs));
    return remove(windows, progress, Math.floorDiv(clock - Retired.LATE_MS, windowMs));
  }

  private static boolean remove(HashMap<String, RangeSet> of, Progress progress, long below) {
    return of.entrySet()
        .removeIf(
            one ->
                !one.getKey().isEmpty()
                    && !progress.knows(one.getKey())
                    && one.getValue().max() < below);
  }

  void add(String probe, long number) {
    windows.computeIfAbsent(probe, key -> new RangeSet(MAX_RANGES)).add(number);
  }

  /**
   * Notes that a digest of a probe for a span is sent; returns false if it must not be, because the
   * span is over.
   */
  boolean openSpan(String probe, long number) {
    RangeSet set = spans.get(probe);
    if (set != null && set.contains(number)) {
      return false;
    }
    open.computeIfAbsent(number, key -> new TreeSet<>()).add(probe);
    return true;
  }

  /** The spans for which digests were sent and that are not over. */
  NavigableMap<Long, TreeSet<String>> open() {
    return open;
  }

  /** Ends a span. */
  void endSpan(String probe, long number) {
    spans.computeIfAbsent(probe, key -> new RangeSet(MAX_RANGES)).add(number);
    TreeSet<String> probes = open.get(number);
    if (probes != null && probes.remove(probe) && probes.isEmpty()) {
      open.remove(number);
    }
  }
}
