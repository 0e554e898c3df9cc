-- Raw interval records, as the agents published them and Flink stored them: one row is what one flow did in one
-- interval. Time-ordered, one partition a day.

CREATE TABLE IF NOT EXISTS flows
(
    ts                      DateTime('UTC') COMMENT 'Start of the interval that the record counts' CODEC(Delta, ZSTD(1)),
    interval_ms             UInt32 COMMENT 'Length of the interval in milliseconds' CODEC(ZSTD(1)),
    probe                   LowCardinality(String) COMMENT 'Name of the probe that saw the flow',
    worker                  UInt16 COMMENT 'Worker of the probe that saw the flow, from 0' CODEC(ZSTD(1)),
    epoch                   UInt64 COMMENT 'Run of the agent: microseconds from 1970 to its start' CODEC(ZSTD(1)),
    sequence                UInt64 COMMENT 'Batch that brought the record, numbered within probe, worker and epoch' CODEC(Delta, ZSTD(1)),
    record_kind             Enum8('flow' = 0, 'overflow' = 1) COMMENT 'flow: one biflow. overflow: many flows counted together, because a bound was reached' CODEC(ZSTD(1)),
    overflow_key            Enum8('none' = 0, 'source_and_port' = 1, 'destination_and_port' = 2, 'protocol_and_direction' = 3) COMMENT 'Overflow records: which columns identify what was counted together' CODEC(ZSTD(1)),
    overflow_inbound        Bool COMMENT 'Overflow records by protocol and direction: the packets came towards the local networks' CODEC(ZSTD(1)),
    overflow_distinct       String COMMENT 'Overflow records: HyperLogLog of the distinct counterparts, 128 registers' CODEC(ZSTD(1)),
    src_addr                IPv6 COMMENT 'Address of the source, the side that began the flow; IPv4 is mapped as ::ffff:a.b.c.d' CODEC(ZSTD(1)),
    dst_addr                IPv6 COMMENT 'Address of the destination; IPv4 is mapped as ::ffff:a.b.c.d' CODEC(ZSTD(1)),
    src_port                UInt16 COMMENT 'Port of the source (TCP, UDP, SCTP)' CODEC(ZSTD(1)),
    dst_port                UInt16 COMMENT 'Port of the destination (TCP, UDP, SCTP); for ICMP its type * 256 + code' CODEC(ZSTD(1)),
    protocol                UInt8 COMMENT 'IP protocol number: 6 TCP, 17 UDP, 1 ICMP, 58 ICMPv6' CODEC(ZSTD(1)),
    ip_version              UInt8 COMMENT '4 or 6' CODEC(ZSTD(1)),
    vlan                    UInt16 COMMENT 'Outer VLAN id, 0 for none' CODEC(ZSTD(1)),
    initiator_guess         Bool COMMENT 'The source is a guess: no SYN was seen, the side seen first was taken' CODEC(ZSTD(1)),
    first_seen              DateTime64(3, 'UTC') COMMENT 'First packet of the flow in this interval' CODEC(Delta, ZSTD(1)),
    last_seen               DateTime64(3, 'UTC') COMMENT 'Last packet of the flow in this interval' CODEC(Delta, ZSTD(1)),
    flow_start              DateTime64(3, 'UTC') COMMENT 'First packet of the flow ever, in this interval or an earlier one' CODEC(Delta, ZSTD(1)),
    fwd_packets             UInt64 COMMENT 'Packets from source to destination in this interval' CODEC(T64, ZSTD(1)),
    fwd_octets              UInt64 COMMENT 'Layer-3 octets from source to destination in this interval' CODEC(T64, ZSTD(1)),
    rev_packets             UInt64 COMMENT 'Packets from destination to source in this interval' CODEC(T64, ZSTD(1)),
    rev_octets              UInt64 COMMENT 'Layer-3 octets from destination to source in this interval' CODEC(T64, ZSTD(1)),
    fwd_tcp_syn             UInt32 COMMENT 'SYN packets without ACK, source to destination' CODEC(T64, ZSTD(1)),
    rev_tcp_syn             UInt32 COMMENT 'SYN packets without ACK, destination to source' CODEC(T64, ZSTD(1)),
    fwd_tcp_synack          UInt32 COMMENT 'SYN packets with ACK, source to destination' CODEC(T64, ZSTD(1)),
    rev_tcp_synack          UInt32 COMMENT 'SYN packets with ACK, destination to source' CODEC(T64, ZSTD(1)),
    fwd_tcp_fin             UInt32 COMMENT 'FIN packets, source to destination' CODEC(T64, ZSTD(1)),
    rev_tcp_fin             UInt32 COMMENT 'FIN packets, destination to source' CODEC(T64, ZSTD(1)),
    fwd_tcp_rst             UInt32 COMMENT 'RST packets, source to destination' CODEC(T64, ZSTD(1)),
    rev_tcp_rst             UInt32 COMMENT 'RST packets, destination to source' CODEC(T64, ZSTD(1)),
    fwd_tcp_retransmissions UInt32 COMMENT 'Segments sent again, source to destination' CODEC(T64, ZSTD(1)),
    rev_tcp_retransmissions UInt32 COMMENT 'Segments sent again, destination to source' CODEC(T64, ZSTD(1)),
    fwd_tcp_out_of_order    UInt32 COMMENT 'Segments that came before an earlier part, source to destination' CODEC(T64, ZSTD(1)),
    rev_tcp_out_of_order    UInt32 COMMENT 'Segments that came before an earlier part, destination to source' CODEC(T64, ZSTD(1)),
    tcp_handshake_rtt_us    UInt32 COMMENT 'Round-trip time of the TCP handshake in microseconds, 0 where none was seen in this interval' CODEC(T64, ZSTD(1)),
    fwd_icmp_errors         UInt32 COMMENT 'ICMP errors among the packets from source to destination' CODEC(T64, ZSTD(1)),
    rev_icmp_errors         UInt32 COMMENT 'ICMP errors among the packets from destination to source' CODEC(T64, ZSTD(1)),
    icmp_quoted_src_addr    IPv6 COMMENT 'Source of the packet that an ICMP error quotes, :: for none' CODEC(ZSTD(1)),
    icmp_quoted_dst_addr    IPv6 COMMENT 'Destination of the packet that an ICMP error quotes, :: for none' CODEC(ZSTD(1)),
    icmp_quoted_src_port    UInt16 COMMENT 'Source port of the quoted packet' CODEC(ZSTD(1)),
    icmp_quoted_dst_port    UInt16 COMMENT 'Destination port of the quoted packet' CODEC(ZSTD(1)),
    icmp_quoted_protocol    UInt8 COMMENT 'IP protocol of the quoted packet' CODEC(ZSTD(1)),
    application_id          UInt16 COMMENT 'Application as nDPI numbers them, 0 unknown' CODEC(ZSTD(1)),
    server_name             String COMMENT 'Server name the client asked for (TLS or HTTP)' CODEC(ZSTD(1)),
    dns_query               String COMMENT 'First name asked in DNS' CODEC(ZSTD(1)),
    exporter_addr           IPv6 COMMENT 'Device that exported the flow, :: where the agent captured it itself' CODEC(ZSTD(1)),
    sampling_rate           UInt32 COMMENT 'One packet in this many was looked at; counts are scaled already. 0 and 1: every packet' CODEC(ZSTD(1)),
    input_interface         UInt32 COMMENT 'Interface of the exporter that the packets came in by' CODEC(ZSTD(1)),
    output_interface        UInt32 COMMENT 'Interface of the exporter that the packets left by' CODEC(ZSTD(1)),
    -- What the ledger calls "stored": kept by the engine inside each part, so it is counted from the rows themselves.
    PROJECTION stored
    (
        SELECT probe, worker, ts, count(), uniqExact(epoch, sequence), sum(fwd_packets + rev_packets), sum(fwd_octets + rev_octets)
        GROUP BY probe, worker, ts
    )
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(ts)
ORDER BY (ts, probe, worker, protocol, dst_port, src_addr, dst_addr)
SETTINGS non_replicated_deduplication_window = 10000, lightweight_mutation_projection_mode = 'rebuild'
COMMENT 'Flow records: what one flow did in one interval. Add up fwd_ and rev_ columns; for whole connections group by addresses, ports, protocol, vlan and flow_start';
