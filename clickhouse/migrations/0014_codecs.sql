-- Flow records in fewer octets; docs/explanation/store.md has what each column takes, before and after.
-- Times within the interval are stored as the agents send them, as small offsets; first_seen, last_seen and flow_start are
-- computed from them. Rows of five minutes are ordered by what makes neighbours alike, first the probe and the way that the
-- flow went: records of one flow, of one server, of one client come to stand together. Codecs are those that were
-- smallest for each column at ZSTD's lowest level.
--
-- The order of a table cannot be changed: it is made anew, filled and exchanged. Stop the jobs in order before it, for the
-- tokens of blocks that were stored already are not carried over.

DROP TABLE IF EXISTS flows_anew SYNC;

CREATE TABLE flows_anew
(
    ts                      DateTime('UTC') COMMENT 'Start of the interval that the record counts' CODEC(T64, ZSTD(1)),
    interval_ms             UInt32 COMMENT 'Length of the interval in milliseconds' CODEC(ZSTD(1)),
    probe                   LowCardinality(String) COMMENT 'Name of the probe that saw the flow',
    worker                  UInt16 COMMENT 'Worker of the probe that saw the flow, from 0' CODEC(T64, ZSTD(1)),
    epoch                   UInt64 COMMENT 'Run of the agent: microseconds from 1970 to its start' CODEC(ZSTD(1)),
    sequence                UInt64 COMMENT 'Batch that brought the record, numbered within probe, worker and epoch' CODEC(T64, ZSTD(1)),
    record_kind             Enum8('flow' = 0, 'overflow' = 1) COMMENT 'flow: one biflow. overflow: many flows counted together, because a bound was reached' CODEC(ZSTD(1)),
    overflow_key            Enum8('none' = 0, 'source_and_port' = 1, 'destination_and_port' = 2, 'protocol_and_direction' = 3) COMMENT 'Overflow records: which columns identify what was counted together' CODEC(ZSTD(1)),
    overflow_inbound        Bool COMMENT 'Overflow records by protocol and direction: the packets came towards the local networks' CODEC(ZSTD(1)),
    overflow_distinct       String COMMENT 'Overflow records: HyperLogLog of the distinct counterparts, 128 registers' CODEC(ZSTD(1)),
    src_addr                IPv6 COMMENT 'Address of the source, the side that began the flow; IPv4 is mapped as ::ffff:a.b.c.d' CODEC(ZSTD(1)),
    dst_addr                IPv6 COMMENT 'Address of the destination; IPv4 is mapped as ::ffff:a.b.c.d' CODEC(ZSTD(1)),
    src_port                UInt16 COMMENT 'Port of the source (TCP, UDP, SCTP)' CODEC(Delta, ZSTD(1)),
    dst_port                UInt16 COMMENT 'Port of the destination (TCP, UDP, SCTP); for ICMP its type * 256 + code' CODEC(Delta, ZSTD(1)),
    protocol                UInt8 COMMENT 'IP protocol number: 6 TCP, 17 UDP, 1 ICMP, 58 ICMPv6' CODEC(ZSTD(1)),
    ip_version              UInt8 COMMENT '4 or 6' CODEC(ZSTD(1)),
    vlan                    UInt16 COMMENT 'Outer VLAN id, 0 for none' CODEC(T64, ZSTD(1)),
    initiator_guess         Bool COMMENT 'The source is a guess: no SYN was seen, the side seen first was taken' CODEC(ZSTD(1)),
    first_seen_offset_ms    Int64 COMMENT 'First packet of the flow in this interval, milliseconds after ts; negative for a late packet that was taken into this interval' CODEC(T64, ZSTD(1)),
    last_seen_offset_ms     UInt64 COMMENT 'Last packet of the flow in this interval, milliseconds after first_seen' CODEC(T64, ZSTD(1)),
    flow_age_ms             UInt64 COMMENT 'How long before first_seen the first packet of the flow ever was, milliseconds; 0 where the flow began in this interval' CODEC(T64, ZSTD(1)),
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
    application_id          UInt16 COMMENT 'Application as nDPI numbers them, 0 unknown' CODEC(T64, ZSTD(1)),
    server_name             String COMMENT 'Server name the client asked for (TLS or HTTP)' CODEC(ZSTD(1)),
    dns_query               String COMMENT 'First name asked in DNS' CODEC(ZSTD(1)),
    exporter_addr           IPv6 COMMENT 'Device that exported the flow, :: where the agent captured it itself' CODEC(ZSTD(1)),
    sampling_rate           UInt32 COMMENT 'One packet in this many was looked at; counts are scaled already. 0 and 1: every packet' CODEC(ZSTD(1)),
    input_interface         UInt32 COMMENT 'Interface of the exporter that the packets came in by' CODEC(ZSTD(1)),
    output_interface        UInt32 COMMENT 'Interface of the exporter that the packets left by' CODEC(ZSTD(1)),
    src_as                  UInt32 COMMENT 'Autonomous system of the source, 0 unknown' CODEC(ZSTD(1)),
    dst_as                  UInt32 COMMENT 'Autonomous system of the destination, 0 unknown' CODEC(ZSTD(1)),
    src_country             UInt16 COMMENT 'Country of the source: first letter * 256 + second, 0 unknown; weir_country() makes letters of it' CODEC(ZSTD(1)),
    dst_country             UInt16 COMMENT 'Country of the destination, likewise' CODEC(ZSTD(1)),
    src_prefix              UInt32 COMMENT 'Longest declared prefix that the source was in, by its id in the table prefixes; 0 none' CODEC(ZSTD(1)),
    dst_prefix              UInt32 COMMENT 'Longest declared prefix that the destination was in, by its id in the table prefixes; 0 none' CODEC(ZSTD(1)),
    src_customer            UInt32 COMMENT 'Customer of the source''s prefix, by number; 0 none' CODEC(ZSTD(1)),
    dst_customer            UInt32 COMMENT 'Customer of the destination''s prefix, by number; 0 none' CODEC(ZSTD(1)),
    site_direction          Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Which way the flow was opened, seen from the probe''s site: out of it, into it, inside it, past it. unknown: the probe has no site, or no prefix is of it' CODEC(ZSTD(1)),
    nation_direction        Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Which way the flow was opened, seen from the nation: out of it, into it, inside it, through it. unknown: no prefix is declared national' CODEC(ZSTD(1)),
    service                 UInt16 COMMENT 'Port of the service that the flow asked for, where it is a registered one (table services); 0 unknown' CODEC(ZSTD(1)),
    first_seen              DateTime64(3, 'UTC') ALIAS toDateTime64(ts, 3, 'UTC') + toIntervalMillisecond(first_seen_offset_ms) COMMENT 'First packet of the flow in this interval',
    last_seen               DateTime64(3, 'UTC') ALIAS first_seen + toIntervalMillisecond(last_seen_offset_ms) COMMENT 'Last packet of the flow in this interval',
    flow_start              DateTime64(3, 'UTC') ALIAS first_seen - toIntervalMillisecond(flow_age_ms) COMMENT 'First packet of the flow ever, in this interval or an earlier one',
    -- What the ledger calls "stored": kept by the engine inside each part, so it is counted from the rows themselves.
    PROJECTION stored
    (
        SELECT probe, worker, ts, count(), uniqExact(epoch, sequence), sum(fwd_packets + rev_packets), sum(fwd_octets + rev_octets)
        GROUP BY probe, worker, ts
    )
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(ts)
PRIMARY KEY (toStartOfFiveMinutes(ts), probe, site_direction, protocol, dst_port)
ORDER BY (toStartOfFiveMinutes(ts), probe, site_direction, protocol, dst_port, dst_addr, src_addr, src_port, ts)
SETTINGS non_replicated_deduplication_window = 10000, lightweight_mutation_projection_mode = 'rebuild', min_compress_block_size = 1048576
COMMENT 'Flow records: what one flow did in one interval. Add up fwd_ and rev_ columns; for whole connections group by addresses, ports, protocol, vlan and flow_start. Ordered by five minutes of time, then probe and direction: give a range of ts';

INSERT INTO flows_anew
(
    ts, interval_ms, probe, worker, epoch, sequence, record_kind, overflow_key, overflow_inbound, overflow_distinct,
    src_addr, dst_addr, src_port, dst_port, protocol, ip_version, vlan, initiator_guess, first_seen_offset_ms,
    last_seen_offset_ms, flow_age_ms, fwd_packets, fwd_octets, rev_packets, rev_octets, fwd_tcp_syn, rev_tcp_syn,
    fwd_tcp_synack, rev_tcp_synack, fwd_tcp_fin, rev_tcp_fin, fwd_tcp_rst, rev_tcp_rst, fwd_tcp_retransmissions,
    rev_tcp_retransmissions, fwd_tcp_out_of_order, rev_tcp_out_of_order, tcp_handshake_rtt_us, fwd_icmp_errors,
    rev_icmp_errors, icmp_quoted_src_addr, icmp_quoted_dst_addr, icmp_quoted_src_port, icmp_quoted_dst_port,
    icmp_quoted_protocol, application_id, server_name, dns_query, exporter_addr, sampling_rate, input_interface,
    output_interface, src_as, dst_as, src_country, dst_country, src_prefix, dst_prefix, src_customer, dst_customer,
    site_direction, nation_direction, service
)
SELECT
    ts, interval_ms, probe, worker, epoch, sequence, record_kind, overflow_key, overflow_inbound, overflow_distinct,
    src_addr, dst_addr, src_port, dst_port, protocol, ip_version, vlan, initiator_guess,
    toUnixTimestamp64Milli(first_seen) - toInt64(toUnixTimestamp(ts)) * 1000,
    toUnixTimestamp64Milli(last_seen) - toUnixTimestamp64Milli(first_seen),
    toUnixTimestamp64Milli(first_seen) - toUnixTimestamp64Milli(flow_start), fwd_packets, fwd_octets, rev_packets,
    rev_octets, fwd_tcp_syn, rev_tcp_syn, fwd_tcp_synack, rev_tcp_synack, fwd_tcp_fin, rev_tcp_fin, fwd_tcp_rst,
    rev_tcp_rst, fwd_tcp_retransmissions, rev_tcp_retransmissions, fwd_tcp_out_of_order, rev_tcp_out_of_order,
    tcp_handshake_rtt_us, fwd_icmp_errors, rev_icmp_errors, icmp_quoted_src_addr, icmp_quoted_dst_addr,
    icmp_quoted_src_port, icmp_quoted_dst_port, icmp_quoted_protocol, application_id, server_name, dns_query,
    exporter_addr, sampling_rate, input_interface, output_interface, src_as, dst_as, src_country, dst_country,
    src_prefix, dst_prefix, src_customer, dst_customer, site_direction, nation_direction, service
FROM flows
SETTINGS max_partitions_per_insert_block = 0;

EXCHANGE TABLES flows AND flows_anew;

DROP TABLE flows_anew SYNC;
