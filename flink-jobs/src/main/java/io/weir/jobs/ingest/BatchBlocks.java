package io.weir.jobs.ingest;

import io.weir.jobs.message.Accepted;
import io.weir.jobs.message.Direction;
import io.weir.jobs.message.Enrichment;
import io.weir.jobs.sink.BlockBuilder;
import io.weir.jobs.sink.BlockOperator;
import io.weir.jobs.table.Table;
import io.weir.proto.ExporterCounters;
import io.weir.proto.ExporterName;
import io.weir.proto.Flow;
import io.weir.proto.FlowBatch;
import io.weir.proto.FlowMessage;
import io.weir.proto.NatEvent;
import java.nio.charset.StandardCharsets;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * The job {@code ingest}: every record of every batch becomes a row in {@code flows}, or in the
 * table for that kind of exporter report.
 */
public final class BatchBlocks extends BlockOperator<Accepted> {
  private static final long serialVersionUID = 1;

  private static final Header FLOWS = Header.of(Table.FLOWS);
  private static final Header NAT_EVENTS = Header.of(Table.NAT_EVENTS);
  private static final Header INTERFACE_COUNTERS = Header.of(Table.INTERFACE_COUNTERS);
  private static final Header EXPORTER_NAMES = Header.of(Table.EXPORTER_NAMES);

  private static final int KEPT_FROM = Table.NAT_EVENTS.index("kept_from");

  /**
   * How long after its interval a report is still accepted, in seconds: Kafka keeps messages for
   * three days.
   */
  private static final long BELIEVED_S = 3 * 86_400;

  /** Positions of the columns whose value is the same for all records of a batch. */
  private record Header(
      Table table, int ts, int intervalMs, int probe, int worker, int epoch, int sequence) {
    static Header of(Table table) {
      return new Header(
          table,
          table.index("ts"),
          table.index("interval_ms"),
          table.index("probe"),
          table.index("worker"),
          table.index("epoch"),
          table.index("sequence"));
    }
  }

  @Override
  public void processElement(StreamRecord<Accepted> element) {
    FlowMessage message = element.getValue().flow();
    if (message == null || !message.hasBatch()) {
      return;
    }
    byte[] probe = message.getProbe().getBytes(StandardCharsets.UTF_8);
    Enrichment enrichment = element.getValue().enrichment();
    FlowBatch batch = message.getBatch();
    int record = 0;
    for (Flow flow : batch.getFlowsList()) {
      BlockBuilder row = row(FLOWS, message, probe);
      FlowWriter.write(flow, row);
      write(enrichment, record++, row);
      added();
    }
    long keptFrom = keptFrom(message.getIntervalStartMs() / 1000);
    for (NatEvent event : batch.getNatEventsList()) {
      BlockBuilder row = row(NAT_EVENTS, message, probe, keptFrom);
      NatEventWriter.write(event, row);
      row.set(KEPT_FROM, keptFrom);
      added();
    }
    for (ExporterCounters counters : batch.getInterfaceCountersList()) {
      ExporterCountersWriter.write(counters, row(INTERFACE_COUNTERS, message, probe));
      added();
    }
    for (ExporterName name : batch.getNamesList()) {
      ExporterNameWriter.write(name, row(EXPORTER_NAMES, message, probe));
      added();
    }
  }

  /**
   * The time from which the retention required by law counts, seconds: a collector clock that is
   * wrong by years neither deletes its reports early nor keeps them for ever. Decided once, when
   * the rows are made: a repeated insert must contain the same rows.
   */
  private long keptFrom(long ts) {
    long now = getProcessingTimeService().getCurrentProcessingTime() / 1000;
    return Math.max(Math.min(ts, now), now - BELIEVED_S);
  }

  private BlockBuilder row(Header header, FlowMessage message, byte[] probe) {
    return row(header, message, probe, message.getIntervalStartMs() / 1000);
  }

  /** Begins a row in the partition of {@code day}, a time in seconds. */
  private BlockBuilder row(Header header, FlowMessage message, byte[] probe, long day) {
    BlockBuilder row = builder(header.table, day);
    row.addRow();
    row.set(header.ts, message.getIntervalStartMs() / 1000);
    row.set(header.intervalMs, message.getIntervalMs());
    row.setString(header.probe, probe);
    row.set(header.worker, message.getWorker());
    row.set(header.epoch, message.getEpoch());
    row.set(header.sequence, message.getSequence());
    return row;
  }

  private static void write(Enrichment known, int record, BlockBuilder row) {
    row.set(KnownColumns.SRC_AS, known.srcAs[record]);
    row.set(KnownColumns.DST_AS, known.dstAs[record]);
    row.set(KnownColumns.SRC_COUNTRY, known.srcCountry[record]);
    row.set(KnownColumns.DST_COUNTRY, known.dstCountry[record]);
    row.set(KnownColumns.SRC_PREFIX, known.srcPrefix[record]);
    row.set(KnownColumns.DST_PREFIX, known.dstPrefix[record]);
    row.set(KnownColumns.SRC_CUSTOMER, known.srcCustomer[record]);
    row.set(KnownColumns.DST_CUSTOMER, known.dstCustomer[record]);
    row.set(KnownColumns.SITE_DIRECTION, Direction.ofSite(known.ends[record]).ordinal());
    row.set(KnownColumns.NATION_DIRECTION, Direction.ofNation(known.ends[record]).ordinal());
    row.set(KnownColumns.SERVICE, known.service[record]);
  }
}
