package io.weir.jobs.alerts;

import io.weir.jobs.message.AgentAlert;
import io.weir.proto.Alert;
import java.util.Iterator;
import java.util.TreeMap;
import java.util.function.Consumer;

/** What the job knows of one agent's alerts: how many came lately, and which are open. */
final class AgentAlerts {
  /** Alerts that are forwarded for each minute, and for each day. */
  static final int PER_MINUTE = 600;

  static final int PER_DAY = 10_000;

  /** Alerts that an agent may have open; beyond, that one closes which was not heard of longest. */
  static final int MAX_OPEN = 100;

  /** An open alert of which nothing was heard for so long is over. */
  static final long SILENT_MS = 3_600_000;

  private static final long MINUTE_MS = 60_000;
  private static final long DAY_MS = 86_400_000;

  /** An open alert, the number of its newest message, and when the job read that, ms from 1970. */
  private static final class Open {
    private Alert alert;
    private int version;
    private long heard;
  }

  private final TreeMap<String, Open> open = new TreeMap<>();
  private long minute;
  private int inMinute;
  private long day;
  private int inDay;

  /** Whether there is room for one more, by the broker's clock: a backlog is no flood. */
  boolean takes(long came) {
    if (came / MINUTE_MS != minute) {
      minute = came / MINUTE_MS;
      inMinute = 0;
    }
    if (came / DAY_MS != day) {
      day = came / DAY_MS;
      inDay = 0;
    }
    if (inMinute >= PER_MINUTE || inDay >= PER_DAY) {
      return false;
    }
    inMinute++;
    inDay++;
    return true;
  }

  /** Notes an alert that was read at {@code now}; gives what to forward. */
  void accept(AgentAlert message, long now, Consumer<AlertMessage> out) {
    // No probe can write into an alert of the jobs or of another probe.
    String id = message.probe() + ":" + message.alert().getId();
    Alert alert = message.alert().toBuilder().setId(id).build();
    AlertMessage forwarded = new AlertMessage(alert, version(message.offset()));
    out.accept(forwarded);
    if (alert.getClosedMs() != 0) {
      open.remove(id);
      return;
    }
    Open one = open.computeIfAbsent(id, key -> new Open());
    one.alert = alert;
    one.version = forwarded.version();
    one.heard = now;
    if (open.size() > MAX_OPEN) {
      Open oldest =
          open.values().stream()
              .min((a, b) -> Long.compare(a.heard, b.heard))
              .orElseThrow(IllegalStateException::new);
      open.remove(oldest.alert.getId());
      out.accept(closed(oldest, now, "its agent has more than " + MAX_OPEN + " open"));
    }
  }

  /** Closes the alerts that were not heard of after {@code since}. */
  void closeSilent(long since, long now, Consumer<AlertMessage> out) {
    for (Iterator<Open> each = open.values().iterator(); each.hasNext(); ) {
      Open one = each.next();
      if (one.heard <= since) {
        each.remove();
        out.accept(closed(one, now, "its agent says nothing more of it"));
      }
    }
  }

  /** When the next alert could be silent for too long; {@code none} if none is open. */
  long nextSilent(long none) {
    return open.values().stream().mapToLong(one -> one.heard + SILENT_MS).min().orElse(none);
  }

  /** Whether nothing here matters after {@code now}. */
  boolean isOver(long now) {
    return open.isEmpty() && now / DAY_MS > day;
  }

  private static AlertMessage closed(Open one, long now, String why) {
    Alert last = one.alert;
    return new AlertMessage(
        last.toBuilder()
            .setText("Over, as " + why + ": " + last.getText())
            .setUpdatedMs(now)
            .setClosedMs(Math.max(one.heard, last.getOpenedMs()))
            .build(),
        one.version + 1);
  }

  /**
   * The number of an agent's message. Later messages of an alert have higher offsets; between two
   * of them is room for a closing by the job.
   */
  private static int version(long offset) {
    return (int) Math.min(2 * (offset + 1), Integer.MAX_VALUE - 1);
  }
}
