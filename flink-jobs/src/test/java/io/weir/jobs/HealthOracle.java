package io.weir.jobs;

import io.weir.jobs.Trace.Event;
import io.weir.jobs.message.Enrolment;
import io.weir.proto.CauseVolume;
import io.weir.proto.Conservation;
import io.weir.proto.FlowMessage;
import io.weir.proto.Volume;
import java.time.Instant;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * The alerts that {@code health} must raise and close, and the latest times for it, according to
 * {@code docs/how-to/alerts.md} ; and the alerts that it must not raise.
 */
final class HealthOracle {
  /** The length of three intervals plus the grace. */
  private static final long SILENT_FROM_MS = 50_000;

  /** The time between two answers from Kafka, plus one second. */
  private static final long NOTICED_MS = 11_000;

  /** How long a run must be silent until one with a lower epoch may follow. */
  private static final long OVER_MS = 60_000;

  private static final long FORGET_MS = 3_600_000;

  /** Longer than any downtime of the jobs, with the catch-up after it. */
  private static final long QUIET_MS = 3 * 3_600_000;

  /** One run of a worker: its first and newest messages. */
  private static final class Run {
    long first = Long.MAX_VALUE;
    int messages;
    long newest = -1;

    /** Whether the newest message says that the agent has stopped. */
    boolean stopped;

    /** When its newest message came, and when the last one did. */
    long newestCame;

    long came;

    void add(FlowMessage message, long at) {
      came = Math.max(came, at);
      first = messages++ == 0 ? message.getSequence() : first;
      if (message.getSequence() > newest) {
        newest = message.getSequence();
        newestCame = at;
        stopped = message.hasClosing() && message.getClosing().getLast();
      }
    }

    /** Whether it began when its first message came, not earlier with messages that are late. */
    boolean isPlain() {
      return first == 0 && messages > 1;
    }

    /**
     * Whether the end of a run with a lower epoch can be told from leftovers: it may come within a
     * minute after a late message of this run, which looks alive then.
     */
    boolean isOver(long epoch, Run next) {
      return stopped || epoch / 1000 > came || next.newestCame >= came + OVER_MS;
    }
  }

  /** The data known about one worker. */
  private static final class Worker {
    long epoch;

    /** By epoch, in the order in which they began. */
    final Map<Long, Run> runs = new LinkedHashMap<>();

    /** Received sequences of the newest run. */
    final Set<Long> came = new HashSet<>();

    long first;
    long closed = -1;

    /** When closing records came, and whether each announced the agent's stop. */
    final TreeMap<Long, Boolean> closings = new TreeMap<>();

    boolean isSilent(long at, long enrolled) {
      Map.Entry<Long, Boolean> last = closings.floorEntry(at);
      return last == null
          ? at - enrolled > SILENT_FROM_MS
          : !last.getValue() && at - last.getKey() > SILENT_FROM_MS;
    }
  }

  /** An alert: by the time of each report, whether it was open; a closed one may open again. */
  private static final class Told {
    final TreeMap<Long, Boolean> open = new TreeMap<>();

    boolean isOpen(long at) {
      Map.Entry<Long, Boolean> last = open.floorEntry(at);
      return last != null && last.getValue();
    }
  }

  private final Map<String, TreeMap<Integer, Worker>> probes = new TreeMap<>();

  /** When drops were first reported, by probe. */
  private final Map<String, Long> drops = new HashMap<>();

  /** When a gap in the sequences, or sums that do not add up, first became visible, by probe. */
  private final Map<String, Long> gaps = new HashMap<>();

  /** Probes with a repeated or late message, or with a killed agent. */
  private final Set<String> uneven = new TreeSet<>();

  private final Map<String, Long> enrolled = new HashMap<>();
  private final Map<String, Long> listed = new HashMap<>();
  private final Map<String, Integer> partitions = new HashMap<>();

  /** Whether the jobs were away, or did not read. */
  private boolean away;

  private long end;

  void event(Event event) {
    end = event.at();
    if (event.stop() == Trace.Stop.CHECKPOINT || event.stop() == Trace.Stop.STALL) {
      away = true;
    }
    if (event.enrolment() != null) {
      for (Enrolment.Probe probe : event.enrolment().probes()) {
        enrolled.putIfAbsent(probe.name(), event.at());
        listed.put(probe.name(), event.at());
        partitions.put(probe.name(), probe.end().length);
      }
    }
  }

  /** Processes a message that came for the first time. */
  void message(Event event, FlowMessage message) {
    Worker worker =
        probes
            .computeIfAbsent(message.getProbe(), key -> new TreeMap<>())
            .computeIfAbsent(message.getWorker(), key -> new Worker());
    long sequence = message.getSequence();
    worker.runs.computeIfAbsent(message.getEpoch(), key -> new Run()).add(message, event.at());
    if (message.hasClosing()) {
      worker.closings.put(event.at(), message.getClosing().getLast());
      if (message.getClosing().getInterval().getDroppedCount() > 0) {
        drops.merge(message.getProbe(), event.at(), Math::min);
      }
    }
    if (message.getEpoch() < worker.epoch) {
      uneven.add(message.getProbe());
      return;
    }
    if (message.getEpoch() > worker.epoch) {
      if (worker.epoch != 0) {
        uneven.add(message.getProbe());
      }
      worker.first = worker.epoch == 0 ? sequence : 0;
      worker.epoch = message.getEpoch();
      worker.came.clear();
      worker.closed = -1;
    }
    worker.came.add(sequence);
    if (sequence < worker.closed) {
      uneven.add(message.getProbe()); // a late one
      return;
    }
    if (message.hasClosing()) {
      boolean gap = !adds(message.getClosing().getInterval());
      for (long i = Math.max(worker.first, worker.closed); i < sequence; i++) {
        gap |= !worker.came.contains(i);
      }
      if (gap) {
        gaps.merge(message.getProbe(), event.at(), Math::min);
      }
      worker.closed = sequence;
    }
  }

  /** Whether all input is accounted for, in packets and in octets. */
  private static boolean adds(Conservation sums) {
    Volume in = sums.getCaptured();
    Volume before = sums.getCarriedIn();
    Volume after = sums.getCarriedOut();
    Volume flows = sums.getInFlowRecords();
    Volume overflow = sums.getInOverflowRecords();
    long packets = flows.getPackets() + overflow.getPackets() + after.getPackets();
    long octets = flows.getOctets() + overflow.getOctets() + after.getOctets();
    for (CauseVolume cause : sums.getNotMeteredList()) {
      packets += cause.getVolume().getPackets();
      octets += cause.getVolume().getOctets();
    }
    return in.getPackets() + before.getPackets() == packets
        && in.getOctets() + before.getOctets() == octets;
  }

  void check(Oracle oracle, List<String> lines) {
    Map<String, TreeMap<String, Told>> alerts = new TreeMap<>();
    for (String line : lines) {
      String row = "alerts " + line.replaceAll(" text=.* values=", " values=");
      Map<String, String> cells = Oracle.row(row, "alerts");
      Told told =
          alerts
              .computeIfAbsent(cells.get("probe") + " " + cells.get("reason"), k -> new TreeMap<>())
              .computeIfAbsent(cells.get("id"), k -> new Told());
      told.open.put(ms(cells.get("updated_at")), !cells.containsKey("closed_at"));
    }
    for (String probe : enrolled.keySet()) {
      silence(oracle, probe, alerts.getOrDefault(probe + " probe_silent", new TreeMap<>()));
      incomplete(oracle, probe, alerts.getOrDefault(probe + " ledger_incomplete", new TreeMap<>()));
      toldBy(oracle, probe, "drops", drops, alerts);
      toldBy(oracle, probe, "gap", gaps, alerts);
      for (String reason : away ? List.of("probe_late") : List.of("lag_growing", "probe_late")) {
        int raised = alerts.getOrDefault(probe + " " + reason, new TreeMap<>()).size();
        oracle.same("alerts of " + probe + " " + reason, raised, 0);
      }
    }
  }

  private static long ms(String time) {
    return Instant.parse("2026-01-01T" + time).toEpochMilli();
  }

  private boolean isRetired(String probe) {
    return end - listed.get(probe) > FORGET_MS + 10_000;
  }

  private boolean isSilent(String probe, long at) {
    TreeMap<Integer, Worker> workers = probes.getOrDefault(probe, new TreeMap<>());
    for (int number = 0; number < partitions.get(probe); number++) {
      if (workers.getOrDefault(number, new Worker()).isSilent(at, enrolled.get(probe))) {
        return true;
      }
    }
    return false;
  }

  /** Whether an agent has begun again with a lower epoch, and it is clear in which order. */
  private boolean isSetBack(String probe) {
    TreeMap<Integer, Worker> workers = probes.getOrDefault(probe, new TreeMap<>());
    return workers.values().stream().allMatch(worker -> isClear(worker.runs))
        && workers.values().stream()
            .map(worker -> List.copyOf(worker.runs.keySet()))
            .anyMatch(epochs -> !epochs.equals(epochs.stream().sorted().toList()));
  }

  private static boolean isClear(Map<Long, Run> runs) {
    Map.Entry<Long, Run> before = null;
    for (Map.Entry<Long, Run> run : runs.entrySet()) {
      boolean lower = before != null && run.getKey() < before.getKey();
      if (!run.getValue().isPlain()
          || (lower && !before.getValue().isOver(run.getKey(), run.getValue()))) {
        return false;
      }
      before = run;
    }
    return true;
  }

  private static boolean isOpen(TreeMap<String, Told> alerts, long at) {
    return alerts.values().stream().anyMatch(told -> told.isOpen(at));
  }

  /**
   * Checks that an alert is open exactly while some worker is silent, with a few seconds' delay.
   */
  private void silence(Oracle oracle, String probe, TreeMap<String, Told> alerts) {
    if (!uneven.contains(probe)) {
      boolean wanted = isSilent(probe, end) && !isRetired(probe);
      oracle.same("alert of silence of " + probe + " in the end", isOpen(alerts, end), wanted);
    }
    if (isSetBack(probe)) {
      boolean stopped =
          probes.get(probe).values().stream()
              .allMatch(
                  worker -> List.copyOf(worker.runs.values()).get(worker.runs.size() - 1).stopped);
      boolean all = probes.get(probe).size() == partitions.get(probe);
      boolean wanted = !isRetired(probe) && !(stopped && all);
      oracle.same("alert of silence of " + probe + " after all runs", isOpen(alerts, end), wanted);
    }
    if (away || uneven.contains(probe)) {
      return; // while the jobs are away nothing is noticed
    }
    Boolean was = null;
    long since = 0;
    long until = Math.min(end, listed.get(probe));
    for (long at = enrolled.get(probe); at <= until; at += 500) {
      boolean silent = isSilent(probe, at);
      if (was == null || was != silent) {
        was = silent;
        since = at;
      }
      if (at - since > NOTICED_MS && isOpen(alerts, at) != silent) {
        oracle.same(
            "alert of silence of " + probe + " at " + Received.time(at),
            isOpen(alerts, at),
            silent + " since " + Received.time(since));
        return;
      }
    }
  }

  /** Checks that an alert followed soon after its cause first became visible. */
  private void toldBy(
      Oracle oracle,
      String probe,
      String what,
      Map<String, Long> seen,
      Map<String, TreeMap<String, Told>> alerts) {
    String reason = what.equals("drops") ? "probe_drops" : "ledger_incomplete";
    TreeMap<String, Told> own = alerts.getOrDefault(probe + " " + reason, new TreeMap<>());
    Long at = seen.get(probe);
    if (at == null || (away && isRetired(probe)) || at + NOTICED_MS > listed.get(probe)) {
      if (at == null && what.equals("drops")) {
        oracle.same("alerts of " + probe + " " + reason, own.size(), 0);
      }
      return;
    }
    long by = at + (away ? QUIET_MS : NOTICED_MS);
    if (own.values().stream().noneMatch(alert -> alert.open.firstKey() <= by)) {
      oracle.same("alert of " + probe + "'s " + what + " at " + Received.time(at), false, true);
    }
  }

  private void incomplete(Oracle oracle, String probe, TreeMap<String, Told> alerts) {
    if (!gaps.containsKey(probe) && !uneven.contains(probe)) {
      oracle.same("alerts of " + probe + "'s ledger", alerts.size(), 0);
    }
    if (isRetired(probe)) {
      oracle.same("alert of a retired probe's ledger", isOpen(alerts, end), false);
    }
  }
}
