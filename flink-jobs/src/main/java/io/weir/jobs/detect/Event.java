package io.weir.jobs.detect;

import io.weir.jobs.alerts.AlertMessage;
import io.weir.proto.Alert;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.ToLongFunction;

/**
 * An event, and its only alert: it opens with the first finding, is sent again whenever it has
 * grown tenfold or become graver, and closes when its probes have seen no more of it for a while.
 * Evidence that comes late amends it, even when it is closed.
 */
final class Event {
  /** Addresses and ports that an alert names. */
  static final int PEERS = 10;

  static final int PORTS = 10;

  /** Probes that an alert names. */
  private static final int PROBES = 100;

  /** How long a closed event may still be amended. */
  static final long AMENDED_MS = 600_000;

  private static final int GROWTH = 10;
  private static final DateTimeFormatter TIME =
      DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss").withZone(ZoneOffset.UTC);

  /** The alert with all findings so far; null before the first. */
  private Alert alert;

  private int version;
  private long quietMs;

  /** When the evidence ended, so far, ms. */
  private long until;

  /** How far it had grown when it was last told. */
  private long told;

  private boolean open;

  boolean isOpen() {
    return open;
  }

  /** When its evidence ended, so far, ms from 1970. */
  long until() {
    return until;
  }

  /** Takes in a finding; false if it belongs to another, later event. */
  boolean accept(Finding finding, Consumer<AlertMessage> out) {
    if (alert != null && !open && finding.from() > until + quietMs) {
      return false;
    }
    boolean first = alert == null;
    boolean graver = !first && finding.degree().severity().getNumber() > alert.getSeverityValue();
    boolean reopens = !first && !open && finding.until() > until;
    long before = until;
    merge(finding);
    if (first || graver || reopens || finding.degree().grown() >= GROWTH * Math.max(1, told)) {
      told = Math.max(told, finding.degree().grown());
      open |= first || reopens;
      tell(finding.until(), out);
    } else {
      if (!open && finding.until() <= before) {
        tell(finding.until(), out); // late, after it was closed
      }
    }
    return true;
  }

  private void merge(Finding finding) {
    Alert.Builder next =
        alert == null
            ? Alert.newBuilder()
                .setMajor(1)
                .setMinor(1)
                .setReason(finding.reason().word())
                .setSubject(finding.subject().text())
                .setSubjectKind(finding.subject().kind().word())
                .setTechnique(finding.reason().technique())
                .setOpenedMs(finding.from())
                .setId(
                    AlertMessage.id(
                        finding.reason().word(), "", finding.subject().text(), finding.from()))
            : alert.toBuilder();
    quietMs = finding.reason().quietMs();
    until = Math.max(until, finding.until());
    int graver = Math.max(next.getSeverityValue(), finding.degree().severity().getNumber());
    next.setSeverityValue(graver);
    if (finding.degree().score() >= next.getScore()) {
      next.setText(finding.shown().text())
          .setScore(finding.degree().score())
          .setThreshold(finding.degree().threshold());
      next.clearPorts().addAllPorts(finding.shown().ports().stream().limit(PORTS).toList());
    }
    finding
        .shown()
        .values()
        .forEach(
            (name, value) ->
                next.putValues(name, Math.max(value, next.getValuesOrDefault(name, 0))));
    for (Map.Entry<String, Long> peer : finding.shown().peers().entrySet()) {
      if (next.containsPeers(peer.getKey()) || next.getPeersCount() < PEERS) {
        long known = next.getPeersOrDefault(peer.getKey(), 0);
        next.putPeers(peer.getKey(), Math.max(known, peer.getValue()));
      }
    }
    for (Map.Entry<String, Long> probe : finding.shown().probes().entrySet()) {
      if (next.containsProbes(probe.getKey()) || next.getProbesCount() < PROBES) {
        long known = next.getProbesOrDefault(probe.getKey(), 0);
        next.putProbes(probe.getKey(), Math.max(known, probe.getValue()));
      }
    }
    String time =
        "ts BETWEEN '%s' AND '%s'"
            .formatted(time(next.getOpenedMs()), time(Math.max(until - 1, next.getOpenedMs())));
    alert = next.setQuery(finding.shown().sql().formatted(time)).build();
  }

  /** Adds to the count of a probe, for so many probes as an alert names. */
  static void count(Map<String, Long> probes, String probe, long by) {
    if (probes.size() < PROBES || probes.containsKey(probe)) {
      probes.merge(probe, by, Long::sum);
    }
  }

  private static String time(long ms) {
    return TIME.format(Instant.ofEpochMilli(ms));
  }

  /**
   * Closes it if the probes that saw it have all closed their intervals up to {@link #quietMs}
   * after its evidence.
   *
   * @param end of the intervals that a probe has closed, ms from 1970
   */
  void closeIfOver(ToLongFunction<String> end, Consumer<AlertMessage> out) {
    if (!open) {
      return;
    }
    for (String probe : alert.getProbesMap().keySet()) {
      if (end.applyAsLong(probe) < until + quietMs) {
        return;
      }
    }
    open = false;
    tell(until + quietMs, out);
  }

  private void tell(long at, Consumer<AlertMessage> out) {
    version++;
    Alert.Builder next =
        alert.toBuilder().setUpdatedMs(Math.max(at, alert.getUpdatedMs())).setClosedMs(0);
    if (!open) {
      long seconds = Math.max(0, until - next.getOpenedMs()) / 1000;
      next.setClosedMs(until).setText("Over after " + seconds + " s: " + next.getText());
    }
    alert = alert.toBuilder().setUpdatedMs(next.getUpdatedMs()).build();
    out.accept(new AlertMessage(next.build(), version));
  }
}
