package io.weir.jobs.ledger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.LedgerEvent;
import io.weir.jobs.message.Reports;
import io.weir.jobs.serde.FieldSerializer;
import io.weir.jobs.table.Table;
import io.weir.jobs.table.TableRow;
import io.weir.proto.ClosingRecord;
import io.weir.proto.Conservation;
import io.weir.proto.Exporter;
import io.weir.proto.FlowBatch;
import io.weir.proto.InterfaceCounters;
import io.weir.proto.LateInterval;
import io.weir.proto.Volume;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.junit.jupiter.api.Test;

class ProbeLedgerTest {
  private static final long BASE = 1_767_225_600_000L;
  private static final long GRACE = 20_000;

  private static LedgerEvent ends(long at, long end) {
    Enrolment.Probe probe = new Enrolment.Probe("alpha", new long[1], new long[] {end});
    return LedgerStages.enrolled(new Enrolment(at, List.of(probe))).get(0);
  }

  private static List<TableRow> looks(boolean moving) throws Exception {
    ProbeLedger ledger = new ProbeLedger();
    List<TableRow> rows = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      long at = BASE + 5_000L * i;
      ledger.accept(ends(at, moving ? 100 + i : 100), at, GRACE, false, rows::add);
      ledger =
          new FieldSerializer<>(ProbeLedger.class).copy(ledger); // as Flink does after a checkpoint
    }
    return rows;
  }

  @Test
  void aPartitionThatIsNotReadAndDoesNotGrowIsTakenAsRead() throws Exception {
    List<TableRow> rows = looks(false);
    assertTrue(rows.size() >= 5, rows::toString);
    for (TableRow row : rows) {
      assertEquals(LedgerState.MISSING.number(), row.cells()[Table.LEDGER.index("state")]);
    }
  }

  @Test
  void aPartitionThatGrowsIsWaitedFor() throws Exception {
    assertEquals(List.of(), looks(true));
  }

  @Test
  void unfinishedIntervalsOfAClockThatIsAheadAreBounded() {
    WorkerLedger worker = new WorkerLedger();
    int count = WorkerLedger.MAX_UNFINISHED + 1_000;
    for (int i = 0; i < count; i++) {
      long start = BASE + 86_400_000 + 20_000L * i;
      LedgerEvent event =
          new LedgerEvent(
              LedgerEvent.Kind.BATCH,
              "alpha",
              0,
              1,
              i,
              start,
              10_000,
              i,
              BASE,
              1,
              1,
              100,
              new byte[0]);
      worker.batch(event, BASE + i);
    }
    for (int look = 0; look < 2; look++) {
      for (long start : worker.changes(BASE + count, GRACE, true)) {
        worker.written(start);
      }
      worker.forget(BASE + count, 1_000);
    }
    assertTrue(worker.intervals.size() <= 2 * WorkerLedger.MAX_UNFINISHED);
    assertEquals(1_000, worker.intervals.values().stream().filter(i -> i.version == 1).count());
  }

  private static LedgerEvent event(
      LedgerEvent.Kind kind, long sequence, long start, long packets, byte[] body) {
    return LedgerStages.event(kind, sequence, start, BASE, packets, body);
  }

  /** A batch with an event of each of these exporters, 192.0.2.N, and a name by the last. */
  private static byte[] reports(int... exporters) {
    FlowBatch.Builder batch = FlowBatch.newBuilder();
    for (int last : exporters) {
      batch.addNatEventsBuilder().setExporterAddr(address(last));
    }
    batch.addNamesBuilder().setExporterAddr(address(exporters[exporters.length - 1]));
    return Reports.of(batch.build());
  }

  private static ByteString address(int last) {
    return ByteString.copyFrom(new byte[] {(byte) 192, 0, 2, (byte) last});
  }

  @Test
  void exportersBeyondTheBoundCountTogether() {
    Reports reports = new Reports();
    for (int i = 0; i < 40; i++) {
      FlowBatch.Builder batch = FlowBatch.newBuilder();
      for (int j = 0; j < 256; j++) {
        byte[] octets = {10, 0, (byte) i, (byte) j};
        batch.addInterfaceCountersBuilder().setExporterAddr(ByteString.copyFrom(octets));
      }
      reports.add(Reports.of(batch.build()));
    }
    Map<String, Long> counted = new HashMap<>();
    reports.each((exporter, counts) -> counted.put(exporter, counts.interfaceCounters));
    assertEquals(10_001, counted.size());
    assertEquals(240L, counted.get(Reports.UNKNOWN));
  }

  private static Volume volume(long packets) {
    return Volume.newBuilder().setPackets(packets).setOctets(packets * 100).build();
  }

  private static Conservation all(long packets) {
    Volume volume = volume(packets);
    return Conservation.newBuilder()
        .setOnInterface(volume)
        .setCaptured(volume)
        .setInFlowRecords(volume)
        .build();
  }

  private static LateInterval late(long start, long packets) {
    return LateInterval.newBuilder()
        .setIntervalStartMs(start)
        .setBatches(1)
        .setRecords(1)
        .setVolume(volume(packets))
        .build();
  }

  /** The terms of the conservation law that only a closing record states. */
  @Test
  void whatAClosingRecordSaysIsInItsRow() throws Exception {
    ClosingRecord closing =
        ClosingRecord.newBuilder()
            .setFirst(true)
            .setWorkers(1)
            .setClockOffsetUs(-250)
            .setInterval(
                all(5).toBuilder()
                    .setInRingPackets(3)
                    .setCarriedIn(volume(4))
                    .setCarriedOut(volume(7)))
            .addInterfaces(
                InterfaceCounters.newBuilder()
                    .setRxPackets(11)
                    .setTxPackets(2)
                    .setRxOctets(1_100)
                    .setTxOctets(200))
            .build();
    List<TableRow> rows = new ArrayList<>();
    ProbeLedger ledger = new ProbeLedger();
    LedgerEvent event = event(LedgerEvent.Kind.CLOSING, 0, BASE, 0, closing.toByteArray());
    ledger.accept(event, BASE + 10_000, GRACE, false, rows::add);
    List<Object> found = new ArrayList<>();
    for (String column :
        List.of(
            "clock_offset_us",
            "in_ring_packets",
            "carried_in_packets",
            "carried_in_octets",
            "carried_out_packets",
            "carried_out_octets",
            "interface_packets",
            "interface_octets")) {
      found.add(rows.get(0).get(column));
    }
    assertEquals(List.of(-250L, 3L, 4L, 400L, 7L, 700L, 13L, 1_300L), found);
  }

  @Test
  void whatComesForClosedIntervalsIsInTheirRows() throws Exception {
    ProbeLedger ledger = new ProbeLedger();
    List<TableRow> rows = new ArrayList<>();
    long second = BASE + 10_000;
    byte[] none = new byte[0];
    ClosingRecord first =
        ClosingRecord.newBuilder()
            .setFirstSequence(0)
            .setBatches(1)
            .setRecords(1)
            .setFirst(true)
            .setWorkers(1)
            .setInterval(all(5))
            .setEpochTotal(all(5))
            .build();
    Exporter exporter =
        Exporter.newBuilder()
            .setAddr(address(9))
            .setProtocol("netflow9")
            .setDomain(7)
            .setRecords(3)
            .setLost(4)
            .setLostUnit("packets")
            .setWithoutSamplingRate(3)
            .putRefused("truncated", 1)
            .setSampling("not_understood")
            .build();
    ClosingRecord next =
        ClosingRecord.newBuilder()
            .setFirstSequence(2)
            .setBatches(3)
            .setRecords(3)
            .setWorkers(1)
            .setInterval(all(7))
            .setEpochTotal(all(5 + 7 + 2 + 30))
            .addLate(late(BASE - 10_000, 30))
            .addLate(late(BASE, 2))
            .addExporters(exporter)
            .build();
    List<LedgerEvent> events =
        List.of(
            event(LedgerEvent.Kind.BATCH, 0, BASE, 5, none),
            event(LedgerEvent.Kind.CLOSING, 1, BASE, 0, first.toByteArray()),
            event(LedgerEvent.Kind.BATCH, 2, BASE - 10_000, 30, none),
            event(LedgerEvent.Kind.BATCH, 3, BASE, 2, none),
            event(LedgerEvent.Kind.BATCH, 4, second, 7, reports(9, 9, 77)),
            event(LedgerEvent.Kind.CLOSING, 5, second, 0, next.toByteArray()));
    for (LedgerEvent event : events) {
      ledger.accept(event, BASE, GRACE, false, rows::add);
      ledger = new FieldSerializer<>(ProbeLedger.class).copy(ledger);
    }
    for (long start : new long[] {BASE - 10_000, BASE, second}) {
      Object[] row = null;
      for (TableRow one : rows) {
        if (one.cells()[Table.LEDGER.index("ts")].equals(start / 1000)) {
          row = one.cells(); // the newest holds
        }
      }
      long packets = start < BASE ? 30 : 7;
      assertEquals(LedgerState.CLOSED.number(), row[Table.LEDGER.index("state")]);
      for (String column :
          List.of("on_interface_packets", "captured_packets", "flow_packets", "received_packets")) {
        assertEquals(packets, row[Table.LEDGER.index(column)], column);
      }
      for (String column : List.of("captured_octets", "flow_octets", "received_octets")) {
        assertEquals(100 * packets, row[Table.LEDGER.index(column)], column);
      }
      long batches = start == BASE ? 2L : 1L;
      for (String column : List.of("published_batches", "published_records", "received_batches")) {
        assertEquals(batches, row[Table.LEDGER.index(column)], column);
      }
      assertEquals(0L, row[Table.LEDGER.index("missing_batches")]);
      String name = "netflow9 192.0.2.9 domain 7";
      boolean last = start == second;
      assertEquals(
          last ? Map.of(name + ", packets", 4L) : Map.of(),
          row[Table.LEDGER.index("exporter_lost")]);
      assertEquals(
          last ? Map.of(name, 3L) : Map.of(),
          row[Table.LEDGER.index("exporter_without_sampling_rate")]);
      assertEquals(
          last ? Map.of(name + ", truncated", 1L) : Map.of(),
          row[Table.LEDGER.index("exporter_refused")]);
      assertEquals(
          last ? Map.of(name + ", not_understood", 3L) : Map.of(),
          row[Table.LEDGER.index("exporter_sampling")]);
      assertEquals(
          last
              ? Map.of(
                  name + ", nat_events",
                  2L,
                  "reports 192.0.2.77 domain 0, nat_events",
                  1L,
                  "reports 192.0.2.77 domain 0, names",
                  1L)
              : Map.of(),
          row[Table.LEDGER.index("exporter_reports")]);
      assertEquals(last ? 3L : 0L, row[Table.LEDGER.index("received_nat_events")]);
      assertEquals(0L, row[Table.LEDGER.index("received_interface_counters")]);
      assertEquals(last ? 1L : 0L, row[Table.LEDGER.index("received_names")]);
    }
  }

  @Test
  void eventsInBatchesThatDidNotComeAreCountedByTheClosingRecord() throws Exception {
    ClosingRecord.Builder closing =
        ClosingRecord.newBuilder().setBatches(2).setFirst(true).setWorkers(1);
    closing.setNatEvents(5).setInterfaceCounters(4).setNames(1);
    LedgerEvent closed = event(LedgerEvent.Kind.CLOSING, 2, BASE, 0, closing.build().toByteArray());
    List<String> columns =
        List.of(
            "missing_batches",
            "published_nat_events",
            "received_nat_events",
            "published_interface_counters",
            "received_interface_counters",
            "published_names",
            "received_names");
    for (boolean closes : new boolean[] {true, false}) {
      ProbeLedger ledger = new ProbeLedger();
      List<TableRow> rows = new ArrayList<>();
      byte[] came = reports(9, 9, 77);
      ledger.accept(event(LedgerEvent.Kind.BATCH, 0, BASE, 0, came), BASE, GRACE, false, rows::add);
      if (closes) {
        ledger.accept(closed, BASE, GRACE, false, rows::add);
      } else {
        long later = BASE + 100_000;
        ledger.accept(ends(later, 1), later, GRACE, false, rows::add);
      }
      Object[] row = rows.get(0).cells();
      assertEquals(BASE / 1000, row[Table.LEDGER.index("ts")]);
      List<Object> found = new ArrayList<>();
      columns.forEach(column -> found.add(row[Table.LEDGER.index(column)]));
      // Without a closing record, what came is all that is known to have been published.
      assertEquals(
          closes ? List.of(1L, 5L, 3L, 4L, 0L, 1L, 1L) : List.of(0L, 3L, 3L, 0L, 0L, 1L, 1L),
          found);
    }
  }

  /** A ledger that has received closing records of empty intervals, from {@link #BASE} on. */
  private static ProbeLedger idle(int intervals, List<TableRow> rows) throws Exception {
    ProbeLedger ledger = new ProbeLedger();
    for (int i = 0; i < intervals; i++) {
      ClosingRecord.Builder closing =
          ClosingRecord.newBuilder()
              .setFirstSequence(i)
              .setWorkers(1)
              .setFirst(i == 0)
              .setSource("af_packet:eth0")
              .setAgentVersion("1.0")
              .setInterval(all(0))
              .setEpochTotal(all(0));
      closing.getLoadBuilder().setCpuPermille(i % 7).setRssOctets(50_000_000 + i);
      closing.addInterfacesBuilder().setName("eth0").setRxPackets(123_456).setRxOctets(9_876_543);
      long start = BASE + 10_000L * i;
      byte[] body = closing.build().toByteArray();
      long now = start + 10_500;
      ledger.accept(
          event(LedgerEvent.Kind.CLOSING, i, start, 0, body), now, GRACE, false, rows::add);
      ledger.accept(ends(now, i + 1), now, GRACE, false, rows::add);
    }
    return ledger;
  }

  @Test
  void emptyIntervalsTakeNoRoom() throws Exception {
    List<TableRow> rows = new ArrayList<>();
    DataOutputSerializer state = new DataOutputSerializer(1_000);
    new FieldSerializer<>(ProbeLedger.class).write(idle(1_000, rows), state);
    assertEquals(1_000, rows.size());
    assertTrue(state.length() < 5_000, "" + state.length());
  }

  @Test
  void whatComesForAnEmptyIntervalIsInItsRow() throws Exception {
    List<TableRow> rows = new ArrayList<>();
    ProbeLedger ledger = idle(3, rows);
    ClosingRecord next =
        ClosingRecord.newBuilder()
            .setFirstSequence(3)
            .setBatches(1)
            .setWorkers(1)
            .setInterval(all(0))
            .setEpochTotal(all(30))
            .addLate(late(BASE + 10_000, 30))
            .build();
    long now = BASE + 40_500;
    LedgerEvent batch = event(LedgerEvent.Kind.BATCH, 3, BASE + 10_000, 30, new byte[0]);
    LedgerEvent closing = event(LedgerEvent.Kind.CLOSING, 4, BASE + 30_000, 0, next.toByteArray());
    rows.clear();
    ledger.accept(batch, now, GRACE, false, rows::add);
    ledger.accept(closing, now, GRACE, false, rows::add);
    Object[] row = null;
    for (TableRow one : rows) {
      if (one.cells()[Table.LEDGER.index("ts")].equals(BASE / 1000 + 10)) {
        row = one.cells();
      }
    }
    assertEquals(2L, row[Table.LEDGER.index("version")]);
    assertEquals(LedgerState.CLOSED.number(), row[Table.LEDGER.index("state")]);
    assertEquals(30L, row[Table.LEDGER.index("captured_packets")]);
    assertEquals(30L, row[Table.LEDGER.index("received_packets")]);
    assertEquals(0L, row[Table.LEDGER.index("missing_batches")]);
    assertEquals("1.0", row[Table.LEDGER.index("agent_version")]);
  }

  /** A batch of an interval of {@code epoch} and its closing record, whose numbers begin at 0. */
  private static List<LedgerEvent> interval(int worker, long epoch, int number, long start) {
    ClosingRecord closing =
        ClosingRecord.newBuilder()
            .setFirstSequence(2L * number)
            .setBatches(1)
            .setRecords(1)
            .setFirst(number == 0)
            .setWorkers(2)
            .setInterval(all(5))
            .setEpochTotal(all(5L * (number + 1)))
            .build();
    List<LedgerEvent> events = new ArrayList<>();
    for (LedgerEvent.Kind kind : List.of(LedgerEvent.Kind.BATCH, LedgerEvent.Kind.CLOSING)) {
      long packets = kind == LedgerEvent.Kind.BATCH ? 5 : 0;
      long sequence = 2L * number + (packets > 0 ? 0 : 1);
      byte[] body = packets > 0 ? new byte[0] : closing.toByteArray();
      events.add(LedgerStages.event(kind, worker, epoch, sequence, start, BASE, packets, body));
    }
    return events;
  }

  private static LedgerEvent look(long at) {
    Enrolment.Probe probe = new Enrolment.Probe("alpha", new long[2], new long[2]);
    return LedgerStages.enrolled(new Enrolment(at, List.of(probe))).get(0);
  }

  /** Worker 1 notices later than worker 0, and is killed before it says anything in the epoch. */
  @Test
  void workersWhoseClockWasSetBackWereNeitherKilledNorStopped() throws Exception {
    long epoch = (BASE - 1_000) * 1_000;
    List<LedgerEvent> events = new ArrayList<>(List.of(look(BASE - 1)));
    for (int worker = 0; worker < 2; worker++) {
      for (int number = 0; number < 3 + worker; number++) {
        events.addAll(interval(worker, epoch, number, BASE + 10_000L * number));
      }
    }
    for (int number = 0; number < 2; number++) {
      events.addAll(interval(0, epoch + 1, number, BASE + 10_000L * (number + 1)));
    }
    events.add(look(BASE + 100_000));
    ProbeLedger ledger = new ProbeLedger();
    List<TableRow> rows = new ArrayList<>();
    for (LedgerEvent event : events) {
      ledger.accept(event, BASE + 100_000, GRACE, false, rows::add);
      ledger = new FieldSerializer<>(ProbeLedger.class).copy(ledger);
    }
    Map<List<Object>, List<Object>> newest = new HashMap<>();
    for (TableRow row : rows) {
      List<Object> cells = new ArrayList<>();
      for (String column :
          List.of("state", "epochs", "captured_packets", "received_packets", "missing_batches")) {
        cells.add(row.cells()[Table.LEDGER.index(column)]);
      }
      long ts = (Long) row.cells()[Table.LEDGER.index("ts")];
      newest.put(List.of(row.cells()[Table.LEDGER.index("worker")], ts - BASE / 1_000), cells);
    }
    int closed = LedgerState.CLOSED.number();
    List<Object> once = List.of(closed, 1, 5L, 5L, 0L);
    List<Object> missing = List.of(LedgerState.MISSING.number(), 0, 0L, 0L, 0L);
    for (int worker = 0; worker < 2; worker++) {
      for (long number = 0; number < 7; number++) {
        List<Object> expected = number < 3 + worker ? once : missing;
        if (worker == 0 && (number == 1 || number == 2)) {
          expected = List.of(closed, 2, 10L, 10L, 0L);
        }
        assertEquals(expected, newest.get(List.of(worker, number * 10)), worker + " " + number);
      }
    }
  }
}
