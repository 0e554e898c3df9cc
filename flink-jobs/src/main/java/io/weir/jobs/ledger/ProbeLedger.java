package io.weir.jobs.ledger;

import com.google.protobuf.InvalidProtocolBufferException;
import io.weir.jobs.ledger.Interval.Part;
import io.weir.jobs.message.LedgerEvent;
import io.weir.jobs.message.NewestRun;
import io.weir.jobs.message.Reports;
import io.weir.jobs.message.StreamClock;
import io.weir.jobs.table.Table;
import io.weir.jobs.table.TableRow;
import io.weir.proto.ClosingRecord;
import io.weir.proto.LateInterval;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;

/**
 * The ledger of one probe. It processes every message on the probe's topic and, every few seconds,
 * the end offsets that Kafka reports for its partitions. It writes rows of {@code ledger}, and
 * writes an interval's row again with the next version when more is known.
 *
 * <p>An interval without any message is {@code missing} once it is over by the clock and the jobs
 * have read all messages in the worker's partition. Packets that an agent reads from a file have
 * their own times, which are independent of the clock.
 */
final class ProbeLedger {
  /** How long the ledger remembers the rows of intervals without any message. */
  static final long KEEP_DECLARED_MS = 30L * 86_400_000;

  private static final int MAX_ROWS_A_LOOK = 2_000;

  private final TreeMap<Integer, WorkerLedger> workers = new TreeMap<>();
  private final NewestRun run = new NewestRun();

  /** When the last event arrived, Kafka's lists of the probe included; ms from 1970. */
  private long heardAt;

  /** Time of Kafka's newest answer, ms from 1970. */
  private long listedAt;

  long heardAt() {
    return heardAt;
  }

  /** Takes in one event. {@code grace} is how long after its end an interval may still close. */
  void accept(LedgerEvent event, long now, long grace, boolean fromLatest, Consumer<TableRow> out)
      throws InvalidProtocolBufferException {
    heardAt = now;
    if (event.kind() == LedgerEvent.Kind.ENROLMENT) {
      look(event, now, grace, fromLatest, out);
      return;
    }
    WorkerLedger worker = workers.computeIfAbsent(event.worker(), key -> new WorkerLedger());
    worker.offset = Math.max(worker.offset, event.offset());
    switch (event.kind()) {
      case BATCH -> write(event.probe(), event.worker(), worker.batch(event, now), now, out);
      case REPEAT -> worker.repeat(event, now);
      case CLOSING -> {
        run.closing(event, ClosingRecord.parseFrom(event.body()), now);
        write(event.probe(), event.worker(), worker.closing(event, now), now, out);
      }
      default -> {
        // only the offset
      }
    }
  }

  /** Writes the rows of intervals that are overdue, when no more messages arrive. */
  void end(String probe, long now, long grace, Consumer<TableRow> out) {
    workers.forEach(
        (number, worker) -> write(probe, number, worker.changes(now, grace, true), now, out));
  }

  /** Checks by the clock which intervals are overdue. */
  private void look(
      LedgerEvent event, long now, long grace, boolean fromLatest, Consumer<TableRow> out) {
    long[] offsets = LedgerEvent.offsets(event.body());
    boolean newer = event.interval() != listedAt;
    boolean setBack = event.interval() < listedAt - StreamClock.CLOCK_MS;
    listedAt = event.interval();
    int length = run.length();
    int partitions = offsets.length / 2;
    for (int number = 0; number < partitions; number++) {
      WorkerLedger worker = workers.computeIfAbsent(number, key -> new WorkerLedger());
      long begin = offsets[2 * number];
      long end = offsets[2 * number + 1];
      if (newer) {
        worker.listed(end);
      }
      if (setBack) {
        worker.setBack(event.interval(), length);
      }
      if (worker.offset < 0 && fromLatest) {
        worker.offset = end - 1;
      }
      boolean idle = worker.idle(end, event.interval(), grace);
      boolean atEnd = idle || Math.max(worker.offset + 1, begin) >= end;
      // Kafka answered at event.interval(): all messages that the topic held then have been read.
      Collection<Long> changes = worker.changes(event.interval(), grace, atEnd);
      write(event.probe(), number, changes, now, out);
      if (worker.nextDue == 0) {
        worker.nextDue = (event.interval() / length + 1) * length;
      }
      boolean due = worker.reported() || number < (run.workers() > 0 ? run.workers() : partitions);
      int rows = 0;
      while (atEnd
          && rows < MAX_ROWS_A_LOOK
          && worker.nextDue + length + grace <= event.interval()) {
        long start = worker.nextDue;
        if (due
            && !worker.covered.contains(start / 1000)
            && !worker.knows(start)
            && (worker.stopped() || !run.isOfFile())) {
          boolean stopped = run.isOfFile() ? worker.stopped() : worker.stoppedAt(start);
          LedgerState state = stopped ? LedgerState.STOPPED : LedgerState.MISSING;
          if (!worker.declared.contains(start / 1000)) {
            out.accept(nothing(event.probe(), number, worker, start, state, now));
            worker.declared.addRange(start / 1000, (start + length) / 1000 - 1);
            rows++;
          }
        }
        worker.nextDue = (start / length + 1) * length;
      }
      worker.forget(now, KEEP_DECLARED_MS);
    }
  }

  private void write(
      String probe, int number, Collection<Long> starts, long now, Consumer<TableRow> out) {
    WorkerLedger worker = workers.get(number);
    for (long start : starts) {
      Interval interval = worker.intervals.get(start);
      if (interval != null) {
        worker.written(start);
        out.accept(row(probe, number, worker, start, interval, now));
      }
    }
  }

  private TableRow nothing(
      String probe, int number, WorkerLedger worker, long start, LedgerState state, long now) {
    Interval empty = new Interval(run.length());
    empty.version = 1;
    TableRow row = row(probe, number, worker, start, empty, now);
    row.cells()[Table.LEDGER.index("state")] = state.number();
    return row;
  }

  private static TableRow row(
      String probe, int number, WorkerLedger worker, long start, Interval interval, long now) {
    Sums sums = new Sums();
    long publishedBatches = 0;
    long publishedRecords = 0;
    long batches = 0;
    long records = 0;
    long packets = 0;
    long octets = 0;
    long repeated = 0;
    long missing = 0;
    long[] missingSequences = {};
    long gap = 0;
    long interfacePackets = 0;
    long interfaceOctets = 0;
    long newest = 0;
    int epochs = 0;
    Exporters exporters = new Exporters();
    Reports reports = new Reports();
    long natEvents = 0;
    long interfaceCounters = 0;
    long names = 0;
    ClosingRecord last = ClosingRecord.getDefaultInstance();
    List<Map.Entry<Long, Part>> parts = new ArrayList<>(interval.parts.entrySet());
    parts.sort(Comparator.comparingLong(entry -> worker.rank(entry.getKey())));
    for (Map.Entry<Long, Part> entry : parts) {
      Part part = entry.getValue();
      if (part.closing != null) {
        last = part.closing;
        sums.add(part.closing.getInterval());
        publishedBatches += Integer.toUnsignedLong(part.closing.getBatches());
        publishedRecords += part.closing.getRecords();
        natEvents += part.closing.getNatEvents();
        interfaceCounters += part.closing.getInterfaceCounters();
        names += part.closing.getNames();
        // Batches for earlier intervals are in the rows of those.
        for (LateInterval late : part.closing.getLateList()) {
          publishedBatches -= Integer.toUnsignedLong(late.getBatches());
          publishedRecords -= late.getRecords();
        }
        gap += part.closing.getGapPackets();
        exporters.add(part.closing.getExportersList());
      } else if (part.unclosed()) {
        if (part.inferred != null) {
          sums.addFlowing(part.inferred, 1);
        } else {
          // The number published is unknown: it is at least the number received.
          sums.flowPackets += part.packets;
          sums.flowOctets += part.octets;
        }
        publishedBatches += part.batches + part.missing;
        publishedRecords += part.records;
        Reports.Counts came = part.reports.sum();
        natEvents += came.natEvents;
        interfaceCounters += came.interfaceCounters;
        names += came.names;
      }
      if (!part.unclosed()) {
        sums.subtractPublished(-part.latePackets, -part.lateOctets);
        publishedBatches += part.lateBatches;
        publishedRecords += part.lateRecords;
      }
      batches += part.batches;
      records += part.records;
      packets += part.packets;
      octets += part.octets;
      repeated += part.repeated;
      reports.add(part.reports);
      missing += part.missing;
      missingSequences = missingSequences.length == 0 ? part.missingSequences : missingSequences;
      interfacePackets += part.interfacePackets;
      interfaceOctets += part.interfaceOctets;
      newest = entry.getKey();
      epochs++;
    }
    exporters.add(reports); // once all closing records have named theirs
    Object[] cells = {
      start / 1000,
      interval.length,
      probe,
      number,
      interval.version,
      interval.state().number(),
      newest,
      epochs,
      sums.onInterface,
      sums.capturedPackets,
      sums.capturedOctets,
      sums.dropped,
      sums.inRing,
      sums.carriedInPackets,
      sums.carriedInOctets,
      sums.carriedOutPackets,
      sums.carriedOutOctets,
      sums.flowPackets,
      sums.flowOctets,
      sums.overflowPackets,
      sums.overflowOctets,
      sums.notMeteredPackets,
      sums.notMeteredOctets,
      sums.late,
      publishedBatches,
      publishedRecords,
      batches,
      records,
      packets,
      octets,
      repeated,
      missing,
      missingSequences,
      gap,
      interfacePackets,
      interfaceOctets,
      last.hasClockOffsetUs() ? (Long) last.getClockOffsetUs() : null,
      last.getAgentVersion(),
      last.getSource(),
      last.getTimeShiftMs(),
      last.getLoad().getCpuPermille(),
      last.getLoad().getRssOctets(),
      last.getLoad().getCloseStallUs(),
      exporters.records,
      exporters.lost,
      exporters.withoutSamplingRate,
      exporters.refused,
      exporters.sampling,
      exporters.reports,
      natEvents,
      interfaceCounters,
      names,
      exporters.natEvents,
      exporters.interfaceCounters,
      exporters.names,
      now
    };
    return new TableRow(Table.LEDGER, cells);
  }
}
