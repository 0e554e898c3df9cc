package io.weir.jobs.health;

import io.weir.jobs.alerts.AlertMessage;
import io.weir.proto.Alert;
import io.weir.proto.Severity;
import java.util.Map;
import java.util.function.Consumer;

/**
 * The condition behind one reason, for one probe: the number of checks for which it has held or not
 * held, and its alert.
 */
final class Condition {
  /** Minimum time between two messages on an alert that stays open without a rise in severity. */
  static final long UPDATE_MS = 300_000;

  /**
   * The result of a check.
   *
   * @param began when the condition began to hold, ms from 1970
   * @param severity of the alert
   * @param text one sentence that ends with a full stop
   * @param values the measured values, with units in their names
   */
  record Finding(long began, Severity severity, String text, Map<String, Long> values) {}

  private final Reason reason;

  /** Number of consecutive checks that found the condition true, or false; one of the two is 0. */
  private int held;

  private int clear;

  /** When the condition began to hold, or ceased to hold, ms. */
  private long since;

  /** The open alert as it was last published; null if none is open. */
  private Alert alert;

  private int version;

  /** When the condition of the newest alert began, open or closed. */
  private long opened;

  /** The newest state of the open alert if it has not been published, else null. */
  private Alert newest;

  Condition(Reason reason) {
    this.reason = reason;
  }

  boolean isOpen() {
    return alert != null;
  }

  /** Applies a check that found the condition true. */
  void holds(String probe, Finding finding, long now, Consumer<AlertMessage> out) {
    since = held == 0 ? finding.began : since;
    held++;
    clear = 0;
    if (alert == null) {
      if (held < reason.openAfter) {
        return;
      }
      alert =
          Alert.newBuilder()
              .setMajor(1)
              .setId(AlertMessage.id(reason.word(), probe, "", since))
              .setReason(reason.word())
              .setProbe(probe)
              .setOpenedMs(since)
              .build();
      if (since != opened) {
        version = 0; // else the closed alert opens again, under its id
      }
      opened = since;
      tell(with(finding, now), out);
      return;
    }
    newest = with(finding, now);
    boolean graver = newest.getSeverityValue() > alert.getSeverityValue();
    if (graver || Math.abs(now - alert.getUpdatedMs()) >= UPDATE_MS) {
      tell(newest, out);
    }
  }

  /** Applies a check that found the condition false. */
  void holdsNot(long now, Consumer<AlertMessage> out) {
    since = clear == 0 ? now : since;
    clear++;
    held = 0;
    if (alert != null && clear >= reason.closeAfter) {
      close(since, now, out);
    }
  }

  /** Closes the alert, if one is open. */
  void close(long at, long now, Consumer<AlertMessage> out) {
    if (alert == null) {
      return;
    }
    Alert last = newest == null ? alert : newest;
    long seconds = Math.max(0, at - last.getOpenedMs()) / 1000;
    tell(
        last.toBuilder()
            .setText("Over after " + seconds + " s: " + last.getText())
            .setUpdatedMs(now)
            .setClosedMs(at)
            .build(),
        out);
    alert = null;
  }

  private Alert with(Finding finding, long now) {
    Alert.Builder next =
        alert.toBuilder()
            .setSeverity(finding.severity)
            .setText(finding.text)
            .setUpdatedMs(now)
            .clearValues();
    finding.values.forEach((name, value) -> next.putValues(name, value));
    return next.build();
  }

  private void tell(Alert next, Consumer<AlertMessage> out) {
    alert = next;
    newest = null;
    version++;
    out.accept(new AlertMessage(next, version));
  }
}
