package io.weir.jobs.ingest;

import com.google.protobuf.ByteString;
import io.weir.jobs.message.Accepted;
import io.weir.jobs.message.Addresses;
import io.weir.jobs.message.Direction;
import io.weir.jobs.message.Enrichment;
import io.weir.jobs.sink.BlockBuilder;
import io.weir.jobs.sink.BlockOperator;
import io.weir.jobs.table.Table;
import io.weir.proto.Flow;
import io.weir.proto.FlowMessage;
import java.nio.charset.StandardCharsets;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** The job {@code ingest}: every record of every batch becomes a row of {@code flows}. */
public final class FlowBlocks extends BlockOperator<Accepted> {
  private static final long serialVersionUID = 1;

  private static final int TS = Table.FLOWS.index("ts");
  private static final int INTERVAL_MS = Table.FLOWS.index("interval_ms");
  private static final int PROBE = Table.FLOWS.index("probe");
  private static final int WORKER = Table.FLOWS.index("worker");
  private static final int EPOCH = Table.FLOWS.index("epoch");
  private static final int SEQUENCE = Table.FLOWS.index("sequence");
  private static final int SRC_AS = Table.FLOWS.index("src_as");
  private static final int DST_AS = Table.FLOWS.index("dst_as");
  private static final int SRC_COUNTRY = Table.FLOWS.index("src_country");
  private static final int DST_COUNTRY = Table.FLOWS.index("dst_country");
  private static final int SRC_PREFIX = Table.FLOWS.index("src_prefix");
  private static final int DST_PREFIX = Table.FLOWS.index("dst_prefix");
  private static final int SRC_CUSTOMER = Table.FLOWS.index("src_customer");
  private static final int DST_CUSTOMER = Table.FLOWS.index("dst_customer");
  private static final int SITE_DIRECTION = Table.FLOWS.index("site_direction");
  private static final int NATION_DIRECTION = Table.FLOWS.index("nation_direction");
  private static final int SERVICE = Table.FLOWS.index("service");

  @Override
  public void processElement(StreamRecord<Accepted> element) {
    FlowMessage message = element.getValue().flow();
    if (message == null || !message.hasBatch()) {
      return;
    }
    long start = message.getIntervalStartMs();
    byte[] probe = message.getProbe().getBytes(StandardCharsets.UTF_8);
    Enrichment enrichment = element.getValue().enrichment();
    int record = 0;
    for (Flow flow : message.getBatch().getFlowsList()) {
      BlockBuilder row = builder(Table.FLOWS, start / 1000);
      row.addRow();
      row.set(TS, start / 1000);
      row.set(INTERVAL_MS, message.getIntervalMs());
      row.setString(PROBE, probe);
      row.set(WORKER, message.getWorker());
      row.set(EPOCH, message.getEpoch());
      row.set(SEQUENCE, message.getSequence());
      FlowWriter.write(flow, row);
      write(enrichment, record++, row);
      added();
    }
  }

  private static void write(Enrichment known, int record, BlockBuilder row) {
    row.set(SRC_AS, known.srcAs[record]);
    row.set(DST_AS, known.dstAs[record]);
    row.set(SRC_COUNTRY, known.srcCountry[record]);
    row.set(DST_COUNTRY, known.dstCountry[record]);
    row.set(SRC_PREFIX, known.srcPrefix[record]);
    row.set(DST_PREFIX, known.dstPrefix[record]);
    row.set(SRC_CUSTOMER, known.srcCustomer[record]);
    row.set(DST_CUSTOMER, known.dstCustomer[record]);
    row.set(SITE_DIRECTION, Direction.ofSite(known.ends[record]).ordinal());
    row.set(NATION_DIRECTION, Direction.ofNation(known.ends[record]).ordinal());
    row.set(SERVICE, known.service[record]);
  }

  static void address(BlockBuilder row, int column, ByteString address) {
    row.setAddress(column, Addresses.high(address), Addresses.low(address));
  }
}
