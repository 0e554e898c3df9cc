package io.weir.jobs.ledger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.LedgerEvent;
import io.weir.jobs.message.RangeSet;
import io.weir.jobs.serde.FieldSerializer;
import io.weir.jobs.table.Table;
import io.weir.jobs.table.TableRow;
import io.weir.proto.ClosingRecord;
import io.weir.proto.Conservation;
import io.weir.proto.LateInterval;
import io.weir.proto.Volume;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.junit.jupiter.api.Test;

/** A worker's finished intervals, which the ledger packs, and what comes for them later. */
class PackedIntervalsTest {
  private static final long BASE = 1_767_225_600_000L;
  private static final int LENGTH = 10_000;
  private static final int INTERVALS = 600;

  private final Random random = new Random(1);
  private final List<TableRow> rows = new ArrayList<>();
  private ProbeLedger ledger = new ProbeLedger();
  private long sequence;
  private long packetsSoFar;
  private long now = BASE;

  private void accept(LedgerEvent.Kind kind, long sequence, long start, long packets, byte[] body)
      throws Exception {
    LedgerEvent event = LedgerStages.event(kind, sequence, start, now, packets, body);
    ledger.accept(event, now, 20_000, false, rows::add);
  }

  private void look() throws Exception {
    Enrolment.Probe probe = new Enrolment.Probe("alpha", new long[1], new long[] {sequence});
    for (LedgerEvent event : LedgerStages.enrolled(new Enrolment(now, List.of(probe)))) {
      ledger.accept(event, now, 20_000, false, rows::add);
    }
  }

  private static Conservation sums(long packets) {
    Volume volume = Volume.newBuilder().setPackets(packets).setOctets(packets * 100).build();
    return Conservation.newBuilder()
        .setOnInterface(volume)
        .setCaptured(volume)
        .setInFlowRecords(volume)
        .build();
  }

  /** An interval's batch and closing record, at its end, with late data of other intervals. */
  private void interval(long start, LateInterval... late) throws Exception {
    now = start + LENGTH + 500;
    long packets = 1L + random.nextInt(100_000);
    packetsSoFar += packets;
    long first = sequence;
    for (LateInterval one : late) {
      long came = one.getVolume().getPackets();
      packetsSoFar += came;
      accept(LedgerEvent.Kind.BATCH, sequence++, one.getIntervalStartMs(), came, new byte[0]);
    }
    accept(LedgerEvent.Kind.BATCH, sequence++, start, packets, new byte[0]);
    ClosingRecord.Builder closing =
        ClosingRecord.newBuilder()
            .setFirstSequence(first)
            .setBatches(1 + late.length)
            .setRecords(1 + late.length)
            .setFirst(first == 0)
            .setWorkers(1)
            .setAgentVersion("1.0")
            .setSource("af_packet:eth0")
            .setClockOffsetUs(random.nextInt(100))
            .setInterval(sums(packets))
            .setEpochTotal(sums(packetsSoFar));
    closing
        .getLoadBuilder()
        .setCpuPermille(random.nextInt(1_000))
        .setRssOctets(50_000_000 + packets);
    closing.addAllLate(List.of(late));
    accept(LedgerEvent.Kind.CLOSING, sequence++, start, 0, closing.build().toByteArray());
    look();
  }

  private int stateLength() throws Exception {
    DataOutputSerializer state = new DataOutputSerializer(1_000);
    FieldSerializer<ProbeLedger> serializer = new FieldSerializer<>(ProbeLedger.class);
    serializer.write(ledger, state);
    ledger = serializer.read(new DataInputDeserializer(state.getSharedBuffer(), 0, state.length()));
    return state.length();
  }

  /** The newest row of the interval at {@code start}, by column. */
  private Map<String, Object> row(long start) {
    Map<String, Object> found = new TreeMap<>();
    for (TableRow row : rows) {
      if (row.cells()[Table.LEDGER.index("ts")].equals(start / 1000)) {
        for (Table.Column column : Table.LEDGER.columns()) {
          Object cell = row.cells()[Table.LEDGER.index(column.name())];
          found.put(column.name(), cell instanceof long[] many ? many.length : "" + cell);
        }
      }
    }
    return found;
  }

  private static long start(int interval) {
    return BASE + (long) LENGTH * interval;
  }

  private void readAll() throws Exception {
    for (int i = 0; i < INTERVALS; i++) {
      interval(start(i));
      if (i % 50 == 0) {
        stateLength();
      }
    }
  }

  @Test
  void theStateOfAWorkerWithTrafficIsSmall() throws Exception {
    readAll();
    assertEquals(INTERVALS, rows.size());
    int length = stateLength();
    assertTrue(length < 30_000, "" + length);
  }

  @Test
  void aRepeatForAPackedIntervalIsInItsRow() throws Exception {
    readAll();
    Map<String, Object> before = row(start(200));
    accept(LedgerEvent.Kind.REPEAT, 400, start(200), 0, new byte[0]);
    accept(LedgerEvent.Kind.REPEAT, 20, start(10), 0, new byte[0]); // is kept no longer
    stateLength();
    now += 60_000;
    look();
    assertEquals(INTERVALS + 1, rows.stream().filter(row -> isBefore(row, INTERVALS)).count());
    Map<String, Object> expected = new TreeMap<>(before);
    expected.put("version", "2");
    expected.put("repeated_batches", "1");
    expected.put("updated_at", "" + now);
    assertEquals(expected, row(start(200)));
  }

  private static boolean isBefore(TableRow row, int interval) {
    return (long) row.cells()[Table.LEDGER.index("ts")] < start(interval) / 1000;
  }

  @Test
  void lateDataOfAPackedIntervalIsAddedToItsRow() throws Exception {
    readAll();
    long flows = Long.parseLong((String) row(start(300)).get("flow_packets"));
    LateInterval late =
        LateInterval.newBuilder()
            .setIntervalStartMs(start(300))
            .setBatches(1)
            .setRecords(1)
            .setVolume(sums(30).getCaptured())
            .build();
    interval(start(INTERVALS), late);
    stateLength();
    Map<String, Object> row = row(start(300));
    assertEquals("" + (flows + 30), row.get("flow_packets"));
    assertEquals("" + (flows + 30), row.get("received_packets"));
    assertEquals("2", row.get("published_batches"));
    assertEquals("2", row.get("received_batches"));
    assertEquals("2", row.get("version"));
  }

  @Test
  void theOldestBeyondTheBoundAreDropped() {
    List<PackedIntervals.Entry> entries = new ArrayList<>();
    PackedIntervals packed = new PackedIntervals();
    RangeSet dropped = new RangeSet(10);
    for (int i = 0; i < 10; i++) {
      entries.add(new PackedIntervals.Entry(start(i), new Interval(LENGTH)));
    }
    packed.add(entries.subList(0, 6), 6, dropped);
    assertEquals("", dropped.toString());
    packed.add(entries.subList(6, 10), 7, dropped);
    assertEquals(7, packed.size());
    assertEquals(start(0) / 1000 + "-" + (start(3) / 1000 - 1), dropped.toString());
    assertTrue(packed.contains(start(3)) && !packed.contains(start(2)));
    List<Long> starts = packed.takeAll().stream().map(PackedIntervals.Entry::start).toList();
    assertEquals(
        List.of(start(3), start(4), start(5), start(6), start(7), start(8), start(9)), starts);
    assertTrue(packed.size() == 0 && !packed.contains(start(9)));
  }
}
