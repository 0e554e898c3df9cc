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
import io.weir.proto.Overflow;
import io.weir.proto.QuotedFlow;
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
  private static final int RECORD_KIND = Table.FLOWS.index("record_kind");
  private static final int OVERFLOW_KEY = Table.FLOWS.index("overflow_key");
  private static final int OVERFLOW_INBOUND = Table.FLOWS.index("overflow_inbound");
  private static final int OVERFLOW_DISTINCT = Table.FLOWS.index("overflow_distinct");
  private static final int SRC_ADDR = Table.FLOWS.index("src_addr");
  private static final int DST_ADDR = Table.FLOWS.index("dst_addr");
  private static final int SRC_PORT = Table.FLOWS.index("src_port");
  private static final int DST_PORT = Table.FLOWS.index("dst_port");
  private static final int PROTOCOL = Table.FLOWS.index("protocol");
  private static final int IP_VERSION = Table.FLOWS.index("ip_version");
  private static final int VLAN = Table.FLOWS.index("vlan");
  private static final int INITIATOR_GUESS = Table.FLOWS.index("initiator_guess");
  private static final int FIRST_SEEN_OFFSET_MS = Table.FLOWS.index("first_seen_offset_ms");
  private static final int LAST_SEEN_OFFSET_MS = Table.FLOWS.index("last_seen_offset_ms");
  private static final int FLOW_AGE_MS = Table.FLOWS.index("flow_age_ms");
  private static final int FWD_PACKETS = Table.FLOWS.index("fwd_packets");
  private static final int FWD_OCTETS = Table.FLOWS.index("fwd_octets");
  private static final int REV_PACKETS = Table.FLOWS.index("rev_packets");
  private static final int REV_OCTETS = Table.FLOWS.index("rev_octets");
  private static final int FWD_TCP_SYN = Table.FLOWS.index("fwd_tcp_syn");
  private static final int REV_TCP_SYN = Table.FLOWS.index("rev_tcp_syn");
  private static final int FWD_TCP_SYNACK = Table.FLOWS.index("fwd_tcp_synack");
  private static final int REV_TCP_SYNACK = Table.FLOWS.index("rev_tcp_synack");
  private static final int FWD_TCP_FIN = Table.FLOWS.index("fwd_tcp_fin");
  private static final int REV_TCP_FIN = Table.FLOWS.index("rev_tcp_fin");
  private static final int FWD_TCP_RST = Table.FLOWS.index("fwd_tcp_rst");
  private static final int REV_TCP_RST = Table.FLOWS.index("rev_tcp_rst");
  private static final int FWD_RETRANSMISSIONS = Table.FLOWS.index("fwd_tcp_retransmissions");
  private static final int REV_RETRANSMISSIONS = Table.FLOWS.index("rev_tcp_retransmissions");
  private static final int FWD_OUT_OF_ORDER = Table.FLOWS.index("fwd_tcp_out_of_order");
  private static final int REV_OUT_OF_ORDER = Table.FLOWS.index("rev_tcp_out_of_order");
  private static final int HANDSHAKE_RTT = Table.FLOWS.index("tcp_handshake_rtt_us");
  private static final int FWD_ICMP_ERRORS = Table.FLOWS.index("fwd_icmp_errors");
  private static final int REV_ICMP_ERRORS = Table.FLOWS.index("rev_icmp_errors");
  private static final int QUOTED_SRC_ADDR = Table.FLOWS.index("icmp_quoted_src_addr");
  private static final int QUOTED_DST_ADDR = Table.FLOWS.index("icmp_quoted_dst_addr");
  private static final int QUOTED_SRC_PORT = Table.FLOWS.index("icmp_quoted_src_port");
  private static final int QUOTED_DST_PORT = Table.FLOWS.index("icmp_quoted_dst_port");
  private static final int QUOTED_PROTOCOL = Table.FLOWS.index("icmp_quoted_protocol");
  private static final int APPLICATION_ID = Table.FLOWS.index("application_id");
  private static final int SERVER_NAME = Table.FLOWS.index("server_name");
  private static final int DNS_QUERY = Table.FLOWS.index("dns_query");
  private static final int EXPORTER_ADDR = Table.FLOWS.index("exporter_addr");
  private static final int SAMPLING_RATE = Table.FLOWS.index("sampling_rate");
  private static final int INPUT_INTERFACE = Table.FLOWS.index("input_interface");
  private static final int OUTPUT_INTERFACE = Table.FLOWS.index("output_interface");
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
      write(flow, row);
      write(enrichment, record++, row);
      added();
    }
  }

  private static void write(Flow flow, BlockBuilder row) {
    address(row, SRC_ADDR, flow.getSrcAddr());
    address(row, DST_ADDR, flow.getDstAddr());
    row.set(SRC_PORT, flow.getSrcPort());
    row.set(DST_PORT, flow.getDstPort());
    row.set(PROTOCOL, flow.getProtocol());
    row.set(IP_VERSION, flow.getIpVersion());
    row.set(VLAN, flow.getVlan());
    row.set(INITIATOR_GUESS, flow.getInitiatorGuess() ? 1 : 0);
    row.set(FIRST_SEEN_OFFSET_MS, flow.getFirstSeenOffsetMs());
    row.set(LAST_SEEN_OFFSET_MS, flow.getLastSeenOffsetMs());
    row.set(FLOW_AGE_MS, flow.getFlowAgeMs());
    row.set(FWD_PACKETS, flow.getFwdPackets());
    row.set(FWD_OCTETS, flow.getFwdOctets());
    row.set(REV_PACKETS, flow.getRevPackets());
    row.set(REV_OCTETS, flow.getRevOctets());
    count(row, FWD_TCP_SYN, flow.getFwdTcpSyn());
    count(row, REV_TCP_SYN, flow.getRevTcpSyn());
    count(row, FWD_TCP_SYNACK, flow.getFwdTcpSynack());
    count(row, REV_TCP_SYNACK, flow.getRevTcpSynack());
    count(row, FWD_TCP_FIN, flow.getFwdTcpFin());
    count(row, REV_TCP_FIN, flow.getRevTcpFin());
    count(row, FWD_TCP_RST, flow.getFwdTcpRst());
    count(row, REV_TCP_RST, flow.getRevTcpRst());
    count(row, FWD_RETRANSMISSIONS, flow.getFwdTcpRetransmissions());
    count(row, REV_RETRANSMISSIONS, flow.getRevTcpRetransmissions());
    count(row, FWD_OUT_OF_ORDER, flow.getFwdTcpOutOfOrder());
    count(row, REV_OUT_OF_ORDER, flow.getRevTcpOutOfOrder());
    row.set(HANDSHAKE_RTT, flow.getTcpHandshakeRttUs());
    count(row, FWD_ICMP_ERRORS, flow.getFwdIcmpErrors());
    count(row, REV_ICMP_ERRORS, flow.getRevIcmpErrors());
    if (flow.hasIcmpQuotedFlow()) {
      QuotedFlow quoted = flow.getIcmpQuotedFlow();
      address(row, QUOTED_SRC_ADDR, quoted.getSrcAddr());
      address(row, QUOTED_DST_ADDR, quoted.getDstAddr());
      row.set(QUOTED_SRC_PORT, quoted.getSrcPort());
      row.set(QUOTED_DST_PORT, quoted.getDstPort());
      row.set(QUOTED_PROTOCOL, quoted.getProtocol());
    }
    row.set(APPLICATION_ID, flow.getApplicationId());
    row.setString(SERVER_NAME, flow.getServerName());
    row.setString(DNS_QUERY, flow.getDnsQuery());
    address(row, EXPORTER_ADDR, flow.getExporterAddr());
    row.set(SAMPLING_RATE, flow.getSamplingRate());
    row.set(INPUT_INTERFACE, flow.getInputInterface());
    row.set(OUTPUT_INTERFACE, flow.getOutputInterface());
    row.set(RECORD_KIND, flow.getRecordKindValue());
    if (flow.hasOverflow()) {
      Overflow overflow = flow.getOverflow();
      row.set(OVERFLOW_KEY, overflow.getKeyValue());
      row.set(OVERFLOW_INBOUND, overflow.getInbound() ? 1 : 0);
      row.setString(OVERFLOW_DISTINCT, overflow.getDistinctSketch().toByteArray());
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

  private static void count(BlockBuilder row, int column, long value) {
    row.set(column, BlockBuilder.saturate32(value));
  }

  private static void address(BlockBuilder row, int column, ByteString address) {
    row.setAddress(column, Addresses.high(address), Addresses.low(address));
  }
}
