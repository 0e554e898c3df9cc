package io.weir.jobs.health;

import com.google.protobuf.InvalidProtocolBufferException;
import io.weir.jobs.alerts.AlertMessage;
import io.weir.jobs.health.Condition.Finding;
import io.weir.jobs.message.LedgerEvent;
import io.weir.jobs.message.NewestRun;
import io.weir.jobs.message.StreamClock;
import io.weir.proto.ClosingRecord;
import io.weir.proto.Severity;
import java.util.EnumMap;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;

/**
 * The health of one probe. Closing records add findings; whenever Kafka reports the end offsets of
 * the probe's partitions, a check evaluates them. Therefore no probe counts as silent while Kafka
 * does not answer, and messages that Kafka holds but the jobs have not read yet count as received.
 */
final class ProbeHealth {
  /**
   * Number of intervals without a closing record, beyond the grace, after which a worker counts as
   * silent.
   */
  static final int SILENT_INTERVALS = 3;

  /** Number of unread messages below which growth raises no alert. */
  static final long LAG_FLOOR = 500;

  /** Drops, in thousandths of the packets on the interface, from which the severity is warning. */
  static final long DROPS_WARNING = 1;

  /** Drops, in thousandths of the packets on the interface, from which the severity is critical. */
  static final long DROPS_CRITICAL = 50;

  private final TreeMap<Integer, WorkerHealth> workers = new TreeMap<>();
  private final EnumMap<Reason, Condition> conditions = new EnumMap<>(Reason.class);

  /** Findings since the last check. */
  private Findings found = new Findings();

  private final NewestRun run = new NewestRun();

  /** Time of Kafka's newest answer, in ms since the Unix epoch. */
  private long checkedAt;

  private long unread;

  /** Packets dropped since the alert on drops opened. */
  private long droppedInAll;

  ProbeHealth() {
    for (Reason reason : Reason.OF_PROBES) {
      conditions.put(reason, new Condition(reason));
    }
  }

  long checkedAt() {
    return checkedAt;
  }

  /** Processes one event. {@code grace} is how long after its end an interval may still close. */
  void accept(LedgerEvent event, long now, long grace, Consumer<AlertMessage> out)
      throws InvalidProtocolBufferException {
    if (event.kind() == LedgerEvent.Kind.ENROLMENT) {
      if (event.interval() != checkedAt) { // it is lower after the jobs' clock was set back
        checkedAt = event.interval();
        check(event.probe(), LedgerEvent.offsets(event.body()), checkedAt, grace, out);
      }
      return;
    }
    WorkerHealth worker = worker(event.worker(), now);
    worker.offset = Math.max(worker.offset, event.offset());
    if (event.kind() == LedgerEvent.Kind.BATCH) {
      worker.batch(event, now, found);
    } else if (event.kind() == LedgerEvent.Kind.CLOSING) {
      ClosingRecord record = ClosingRecord.parseFrom(event.body());
      run.closing(event, record, now);
      worker.closing(event, record, now, found);
      found.closing(event, record, now);
    }
  }

  /** Closes the alerts of a probe that is no longer enrolled. */
  void end(long now, Consumer<AlertMessage> out) {
    conditions.values().forEach(condition -> condition.close(now, now, out));
  }

  private WorkerHealth worker(int number, long now) {
    WorkerHealth worker = workers.get(number);
    if (worker == null) {
      worker = new WorkerHealth();
      worker.heard = now;
      workers.put(number, worker);
    }
    return worker;
  }

  private void check(
      String probe, long[] offsets, long at, long grace, Consumer<AlertMessage> out) {
    long before = unread;
    unread = 0;
    long since = at;
    int silent = 0;
    int last = -1;
    int partitions = offsets.length / 2;
    int due = run.workers() > 0 ? Math.min(run.workers(), partitions) : partitions;
    boolean reported = false;
    for (int number = 0; number < partitions; number++) {
      WorkerHealth worker = worker(number, at);
      long left = worker.unread(offsets[2 * number], offsets[2 * number + 1], at, grace);
      unread += left;
      reported |= worker.reported;
      worker.heard = Math.min(worker.heard, at + StreamClock.CLOCK_MS);
      long quiet = at - worker.heard;
      boolean over = left == 0 && quiet > (long) SILENT_INTERVALS * run.length() + grace;
      if (number < due && over && !worker.stopped() && !run.isOfFile()) {
        silent++;
        last = number;
        since = Math.min(since, worker.silentSince());
      }
    }
    judge(
        Reason.PROBE_SILENT,
        probe,
        silent > 0,
        at,
        out,
        silent > 0 ? silence(probe, since, at, silent, due, last, reported) : null);
    boolean grows = unread > before && unread > LAG_FLOOR;
    judge(Reason.LAG_GROWING, probe, grows, at, out, grows ? lag(probe) : null);
    if (found.closings > 0) {
      judgeFindings(probe, at, out);
    } else if (found.missingClosings > 0) {
      judge(Reason.LEDGER_INCOMPLETE, probe, true, at, out, incomplete(probe));
    }
    found = new Findings();
  }

  private void judgeFindings(String probe, long at, Consumer<AlertMessage> out) {
    boolean drops = found.dropped > 0;
    droppedInAll += found.dropped;
    judge(Reason.PROBE_DROPS, probe, drops, at, out, drops ? drops(probe) : null);
    if (!conditions.get(Reason.PROBE_DROPS).isOpen()) {
      droppedInAll = 0;
    }
    boolean incomplete =
        (found.missingBatches
                | found.missingClosings
                | found.unbalancedPackets
                | found.unbalancedOctets)
            != 0;
    judge(
        Reason.LEDGER_INCOMPLETE,
        probe,
        incomplete,
        at,
        out,
        incomplete ? incomplete(probe) : null);
    if (found.clocked > 0) {
      boolean late = found.late > 0;
      judge(Reason.PROBE_LATE, probe, late, at, out, late ? late(probe) : null);
      // Besides late records that had to wait, other late records will have waited, too.
      boolean off = found.ahead > 0 || found.offset > 0 || (found.behind > 0 && !late);
      judge(Reason.CLOCK_OFF, probe, off, at, out, off ? clock(probe) : null);
    }
  }

  private void judge(
      Reason reason,
      String probe,
      boolean holds,
      long at,
      Consumer<AlertMessage> out,
      Finding finding) {
    Condition condition = conditions.get(reason);
    if (holds) {
      condition.holds(probe, finding, at, out);
    } else {
      condition.holdsNot(at, out);
    }
  }

  private static Finding silence(
      String probe, long since, long at, int silent, int due, int last, boolean reported) {
    long silentFor = at - since;
    Map<String, Long> values =
        Map.of(
            "silent_ms",
            silentFor,
            "workers_silent",
            (long) silent,
            "workers_expected",
            (long) due);
    String span = seconds(silentFor) + " s";
    if (!reported) {
      return new Finding(
          since,
          Severity.SEVERITY_WARNING,
          "Probe " + probe + " is enrolled and has sent nothing in " + span + ".",
          values);
    }
    if (silent == due) {
      return new Finding(
          since,
          Severity.SEVERITY_CRITICAL,
          "Probe " + probe + " has sent nothing for " + span + ".",
          values);
    }
    String which =
        silent == 1
            ? "Worker " + last + " of probe " + probe + " has"
            : silent + " of " + due + " workers of probe " + probe + " have";
    return new Finding(
        since, Severity.SEVERITY_WARNING, which + " sent nothing for " + span + ".", values);
  }

  private Finding lag(String probe) {
    return new Finding(
        checkedAt,
        Severity.SEVERITY_WARNING,
        "The jobs fall behind probe "
            + probe
            + ": "
            + number(unread)
            + " messages are unread, and their number is growing.",
        Map.of("unread_messages", unread));
  }

  /** When a finding began; findings of an earlier version's state lack it. */
  private long began(long since) {
    return since == 0 ? checkedAt : since;
  }

  private Finding drops(String probe) {
    long permille = found.dropped * 1000 / Math.max(found.dropped, found.onInterface);
    Severity severity =
        permille >= DROPS_CRITICAL
            ? Severity.SEVERITY_CRITICAL
            : permille >= DROPS_WARNING ? Severity.SEVERITY_WARNING : Severity.SEVERITY_INFO;
    return new Finding(
        began(found.droppedSince),
        severity,
        "Probe "
            + probe
            + " lost "
            + number(found.dropped)
            + " of "
            + number(found.onInterface)
            + " packets before its agent could take them.",
        Map.of(
            "dropped_packets", found.dropped,
            "on_interface_packets", found.onInterface,
            "dropped_packets_in_all", droppedInAll));
  }

  private Finding incomplete(String probe) {
    StringBuilder text = new StringBuilder();
    append(text, found.missingBatches, "batch did not come", "batches did not come");
    append(
        text, found.missingClosings, "closing record did not come", "closing records did not come");
    append(
        text,
        found.unbalancedPackets,
        "packet is not accounted for",
        "packets are not accounted for");
    append(
        text, found.unbalancedOctets, "octet is not accounted for", "octets are not accounted for");
    return new Finding(
        began(found.incompleteSince),
        Severity.SEVERITY_WARNING,
        "The ledger of probe " + probe + " is incomplete: " + text + ".",
        Map.of(
            "missing_batches", found.missingBatches,
            "missing_closings", found.missingClosings,
            "unbalanced_packets", found.unbalancedPackets,
            "unbalanced_octets", found.unbalancedOctets));
  }

  private static void append(StringBuilder text, long count, String one, String many) {
    if (count > 0) {
      text.append(text.isEmpty() ? "" : ", ").append(number(count)).append(' ');
      text.append(count == 1 ? one : many);
    }
  }

  private Finding late(String probe) {
    return new Finding(
        began(found.lateSince),
        Severity.SEVERITY_WARNING,
        "Records of probe "
            + probe
            + " come "
            + found.late / 1000
            + " s after their interval, and "
            + number(found.queueOctets + found.spoolOctets)
            + " octets wait in the agent.",
        Map.of(
            "late_ms", found.late,
            "queue_octets", found.queueOctets,
            "spool_octets", found.spoolOctets));
  }

  private Finding clock(String probe) {
    String how =
        found.ahead > 0
            ? "ahead of Kafka's by about " + seconds(found.ahead) + " s"
            : found.behind > 0
                ? "behind Kafka's by about " + seconds(found.behind) + " s"
                : "off by " + seconds(found.offset) + " s, as its host says";
    return new Finding(
        began(found.clockSince),
        Severity.SEVERITY_CRITICAL,
        "The clock of probe " + probe + " is " + how + ".",
        Map.of("ahead_ms", found.ahead, "behind_ms", found.behind, "offset_ms", found.offset));
  }

  private static long seconds(long ms) {
    return Math.round(ms / 1000.0);
  }

  private static String number(long count) {
    return String.format(Locale.ROOT, "%,d", count);
  }
}
