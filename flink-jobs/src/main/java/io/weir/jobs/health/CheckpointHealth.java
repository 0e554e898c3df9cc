package io.weir.jobs.health;

import io.weir.jobs.alerts.AlertMessage;
import io.weir.jobs.health.Condition.Finding;
import io.weir.proto.Severity;
import java.util.Map;
import java.util.function.Consumer;

/** The alert on the jobs' own checkpoints. */
final class CheckpointHealth {
  /** How old the newest complete checkpoint may be before an alert opens. */
  static final long STALE_MS = 300_000;

  private final Condition condition = new Condition(Reason.CHECKPOINTS_FAILING);

  /** Checks at {@code now}; the newest complete checkpoint was taken at {@code newest}, both ms. */
  void check(long newest, long now, Consumer<AlertMessage> out) {
    long age = now - newest;
    if (age < STALE_MS) {
      condition.holdsNot(now, out);
      return;
    }
    String text =
        "No checkpoint of the jobs has completed for "
            + age / 1000
            + " s, and rows are stored only after one: the store is away, the checkpoints' storage cannot be written,"
            + " or a checkpoint takes too long.";
    condition.holds(
        "",
        new Finding(newest, Severity.SEVERITY_CRITICAL, text, Map.of("checkpoint_age_ms", age)),
        now,
        out);
  }
}
