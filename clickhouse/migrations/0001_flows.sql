-- Raw interval records, as the agents published them and the jobs stored them: one row has the counts of one flow in one
-- interval. A partition is a day.
--
-- Rows of five minutes are ordered by what makes neighbours alike, first the probe and the direction in which the flow was
-- opened: records of one flow, of one server, of one client come to stand together. Each column has the codec that was
-- smallest for it at a low level of ZSTD; names, and numbers that stand for names, come again at a distance, which higher
-- levels find, and starts of intervals are multiples of ten seconds (GCD). docs/explanation/store.md has what each takes.
CREATE TABLE IF NOT EXISTS flows
(
    -- Interval and batch of the record.
    ts                        DateTime('UTC') COMMENT 'Start of the interval whose traffic the record counts' CODEC(GCD, T64, ZSTD(1)),
    interval_ms               UInt32 COMMENT 'Length of the interval in milliseconds' CODEC(ZSTD(1)),
    probe                     LowCardinality(String) COMMENT 'Name of the probe that saw the flow',
    worker                    UInt16 COMMENT 'Worker of the probe that saw the flow, from 0' CODEC(T64, ZSTD(1)),
    epoch                     UInt64 COMMENT 'Run of the agent: microseconds from 1970 to its start' CODEC(ZSTD(1)),
    sequence                  UInt64 COMMENT 'Batch that brought the record, numbered within probe, worker and epoch' CODEC(T64, ZSTD(1)),
    -- Overflow records: flows that the agent counted together, because it had reached a bound.
    record_kind               Enum8('flow' = 0, 'overflow' = 1) COMMENT 'flow: one biflow. overflow: many flows that the agent counted together, because it had reached a bound' CODEC(ZSTD(1)),
    overflow_key              Enum8('none' = 0, 'source_and_port' = 1, 'destination_and_port' = 2, 'protocol_and_direction' = 3) COMMENT 'Overflow records: the columns that identify the flows counted together' CODEC(ZSTD(1)),
    overflow_inbound          Bool COMMENT 'Overflow records by protocol and direction: the packets came towards the local networks' CODEC(ZSTD(1)),
    overflow_distinct         String COMMENT 'Overflow records: HyperLogLog of the distinct counterparts, 128 registers' CODEC(ZSTD(1)),
    -- Identity of the flow.
    src_addr                  IPv6 COMMENT 'Address of the source, the side that began the flow; IPv4 is mapped as ::ffff:a.b.c.d' CODEC(ZSTD(2)),
    dst_addr                  IPv6 COMMENT 'Address of the destination; IPv4 is mapped as ::ffff:a.b.c.d' CODEC(ZSTD(1)),
    src_port                  UInt16 COMMENT 'Port of the source (TCP, UDP, SCTP)' CODEC(Delta, ZSTD(1)),
    dst_port                  UInt16 COMMENT 'Port of the destination (TCP, UDP, SCTP); for ICMP its type * 256 + code' CODEC(Delta, ZSTD(1)),
    protocol                  UInt8 COMMENT 'IP protocol number: 6 TCP, 17 UDP, 1 ICMP, 58 ICMPv6' CODEC(ZSTD(1)),
    ip_version                UInt8 COMMENT '4 or 6' CODEC(ZSTD(1)),
    vlan                      UInt16 COMMENT 'Outer VLAN id, 0 for none' CODEC(T64, ZSTD(1)),
    initiator_guess           Bool COMMENT 'True if the source is a guess: the agent saw no SYN, and took the side seen first' CODEC(ZSTD(1)),
    -- Times within the interval are stored as the agents send them, as small offsets; the columns with DateTime64 below are
    -- computed from them.
    first_seen_offset_ms      Int64 COMMENT 'First packet of the flow in this interval, milliseconds after ts; negative for a late packet that is counted in this interval' CODEC(T64, ZSTD(1)),
    last_seen_offset_ms       UInt64 COMMENT 'Last packet of the flow in this interval, milliseconds after first_seen' CODEC(T64, ZSTD(1)),
    flow_age_ms               UInt64 COMMENT 'Time from the very first packet of the flow to first_seen, milliseconds; 0 if the flow began in this interval' CODEC(T64, ZSTD(1)),
    -- Counts in the interval, by direction.
    fwd_packets               UInt64 COMMENT 'Packets from source to destination in this interval' CODEC(T64, ZSTD(1)),
    fwd_octets                UInt64 COMMENT 'Layer-3 octets from source to destination in this interval' CODEC(T64, ZSTD(1)),
    rev_packets               UInt64 COMMENT 'Packets from destination to source in this interval' CODEC(T64, ZSTD(1)),
    rev_octets                UInt64 COMMENT 'Layer-3 octets from destination to source in this interval' CODEC(T64, ZSTD(1)),
    fwd_class_of_service      UInt8 COMMENT 'Type of service or traffic class from source to destination, DSCP * 4 + ECN: of the first packet in this interval, or as the exporter states it for the flow' CODEC(ZSTD(1)),
    rev_class_of_service      UInt8 COMMENT 'Type of service or traffic class from destination to source, DSCP * 4 + ECN: of the first packet in this interval, or as the exporter states it for the flow' CODEC(ZSTD(1)),
    fwd_tcp_syn               UInt32 COMMENT 'SYN packets without ACK, source to destination' CODEC(T64, ZSTD(1)),
    rev_tcp_syn               UInt32 COMMENT 'SYN packets without ACK, destination to source' CODEC(T64, ZSTD(1)),
    fwd_tcp_synack            UInt32 COMMENT 'SYN packets with ACK, source to destination' CODEC(T64, ZSTD(1)),
    rev_tcp_synack            UInt32 COMMENT 'SYN packets with ACK, destination to source' CODEC(T64, ZSTD(1)),
    fwd_tcp_fin               UInt32 COMMENT 'FIN packets, source to destination' CODEC(T64, ZSTD(1)),
    rev_tcp_fin               UInt32 COMMENT 'FIN packets, destination to source' CODEC(T64, ZSTD(1)),
    fwd_tcp_rst               UInt32 COMMENT 'RST packets, source to destination' CODEC(T64, ZSTD(1)),
    rev_tcp_rst               UInt32 COMMENT 'RST packets, destination to source' CODEC(T64, ZSTD(1)),
    fwd_tcp_retransmissions   UInt32 COMMENT 'Retransmitted segments, source to destination' CODEC(T64, ZSTD(1)),
    rev_tcp_retransmissions   UInt32 COMMENT 'Retransmitted segments, destination to source' CODEC(T64, ZSTD(1)),
    fwd_tcp_out_of_order      UInt32 COMMENT 'Out-of-order segments, source to destination' CODEC(T64, ZSTD(1)),
    rev_tcp_out_of_order      UInt32 COMMENT 'Out-of-order segments, destination to source' CODEC(T64, ZSTD(1)),
    tcp_handshake_rtt_us      UInt32 COMMENT 'Round-trip time of the TCP handshake in microseconds, 0 where none was seen in this interval' CODEC(T64, ZSTD(1)),
    fwd_icmp_errors           UInt32 COMMENT 'ICMP errors among the packets from source to destination' CODEC(T64, ZSTD(1)),
    rev_icmp_errors           UInt32 COMMENT 'ICMP errors among the packets from destination to source' CODEC(T64, ZSTD(1)),
    fwd_icmp_errors_udp       UInt32 COMMENT 'The part of fwd_icmp_errors that quotes a UDP packet' CODEC(T64, ZSTD(1)),
    rev_icmp_errors_udp       UInt32 COMMENT 'The part of rev_icmp_errors that quotes a UDP packet' CODEC(T64, ZSTD(1)),
    -- The flow that an ICMP error quotes.
    icmp_quoted_src_addr      IPv6 COMMENT 'Source of the packet that an ICMP error quotes, :: for none' CODEC(ZSTD(1)),
    icmp_quoted_dst_addr      IPv6 COMMENT 'Destination of the packet that an ICMP error quotes, :: for none' CODEC(ZSTD(1)),
    icmp_quoted_src_port      UInt16 COMMENT 'Source port of the quoted packet' CODEC(ZSTD(1)),
    icmp_quoted_dst_port      UInt16 COMMENT 'Destination port of the quoted packet' CODEC(ZSTD(1)),
    icmp_quoted_protocol      UInt8 COMMENT 'IP protocol of the quoted packet' CODEC(ZSTD(1)),
    -- Application, and names in the payload.
    application_id            UInt16 COMMENT 'Application as nDPI numbers them, 0 unknown' CODEC(T64, ZSTD(1)),
    server_name               String COMMENT 'Server name that the client asked for (TLS or HTTP)' CODEC(ZSTD(3)),
    dns_query                 String COMMENT 'First name queried in DNS' CODEC(ZSTD(3)),
    application_not_inspected Enum8('none' = 0, 'overload' = 1, 'pool_full' = 2, 'displaced' = 3) COMMENT 'Why application_id may be 0 although the flow had payload to inspect. overload: too many packets would have been inspected; pool_full: the maximum number of flows was already being inspected; displaced: the flow was idle and lost its place to another flow; none: the flow was inspected, had no payload, or inspection is off' CODEC(ZSTD(1)),
    -- Flows that a router exported: its sampling and its routing data.
    exporter_addr             IPv6 COMMENT 'Device that exported the flow; :: if the agent captured the flow itself' CODEC(ZSTD(1)),
    sampling_rate             UInt32 COMMENT 'Sampling rate: one packet in this many was examined; the counts are already scaled up. 1: every packet. 0: every packet if the agent captured the flow itself (exporter_addr is ::); otherwise the exporter gave no rate, and the counts are as exported' CODEC(ZSTD(1)),
    input_interface           UInt32 COMMENT 'Interface of the exporter through which the packets came in' CODEC(ZSTD(1)),
    output_interface          UInt32 COMMENT 'Interface of the exporter through which the packets left' CODEC(ZSTD(1)),
    routed_src_as             UInt32 COMMENT 'Autonomous system of the source in the exporter''s routing table, 0 unknown; src_as comes from Weir''s own table' CODEC(ZSTD(1)),
    routed_dst_as             UInt32 COMMENT 'Autonomous system of the destination in the exporter''s routing table, 0 unknown; dst_as comes from Weir''s own table' CODEC(ZSTD(1)),
    next_hop                  IPv6 COMMENT 'Next router towards the destination, in the exporter''s routing table; :: unknown' CODEC(ZSTD(1)),
    bgp_next_hop              IPv6 COMMENT 'BGP next hop towards the destination, in the exporter''s routing table; :: unknown' CODEC(ZSTD(1)),
    src_prefix_length         UInt8 COMMENT 'Length of the prefix that contains the source, in the exporter''s routing table; 0 unknown' CODEC(ZSTD(1)),
    dst_prefix_length         UInt8 COMMENT 'Length of the prefix that contains the destination, in the exporter''s routing table; 0 unknown' CODEC(ZSTD(1)),
    ingress_vrf               UInt32 COMMENT 'VRF through which the packets came in, by its number on the exporter (exporter_names has its name); 0: the global one, or unknown' CODEC(ZSTD(1)),
    egress_vrf                UInt32 COMMENT 'VRF through which the packets left, by its number on the exporter; 0: the global one, or unknown' CODEC(ZSTD(1)),
    flow_direction            Enum8('unknown' = 0, 'ingress' = 1, 'egress' = 2) COMMENT 'Where the exporter observed the packets: as they came in or as they left' CODEC(ZSTD(1)),
    flow_end_reason           UInt8 COMMENT 'Why the exporter ended its record: 1 idle, 2 active timeout, 3 end of the flow seen, 4 forced, 5 lack of resources; 0 unknown' CODEC(ZSTD(1)),
    forwarding_status         UInt8 COMMENT 'Forwarding status, how the exporter treated the packets: 64 to 127 forwarded, 128 to 191 dropped, 192 to 255 consumed (RFC 7270); 0 unknown' CODEC(ZSTD(1)),
    mpls_top_label            UInt32 COMMENT 'Top MPLS label, 0 for none' CODEC(ZSTD(1)),
    min_ttl                   UInt8 COMMENT 'Lowest TTL or hop limit of the packets, 0 unknown' CODEC(ZSTD(1)),
    max_ttl                   UInt8 COMMENT 'Highest TTL or hop limit of the packets, 0 unknown' CODEC(ZSTD(1)),
    src_mac                   UInt64 COMMENT 'Link-layer address (MAC) of the source''s frames as a number, 0 unknown; MACNumToString() writes it' CODEC(ZSTD(1)),
    dst_mac                   UInt64 COMMENT 'Link-layer address (MAC) of the destination as a number, 0 unknown; MACNumToString() writes it' CODEC(ZSTD(1)),
    post_nat_src_addr         IPv6 COMMENT 'Address of the source after translation (NAT), :: unknown' CODEC(ZSTD(1)),
    post_nat_dst_addr         IPv6 COMMENT 'Address of the destination after translation, :: unknown' CODEC(ZSTD(1)),
    post_nat_src_port         UInt16 COMMENT 'Port of the source after translation, 0 unknown' CODEC(ZSTD(1)),
    post_nat_dst_port         UInt16 COMMENT 'Port of the destination after translation, 0 unknown' CODEC(ZSTD(1)),
    observation_point         UInt32 COMMENT 'Place on the exporter where it observed the packets, by its number there; 0 unknown' CODEC(ZSTD(1)),
    src_adjacent_as           UInt32 COMMENT 'Autonomous system of the neighbour that the packets came from, as the exporter states it; 0 unknown' CODEC(ZSTD(1)),
    dst_adjacent_as           UInt32 COMMENT 'Autonomous system of the neighbour that the packets go to, as the exporter states it; 0 unknown' CODEC(ZSTD(1)),
    -- Added by the jobs: location and owner of both ends. The numbers are stored, dictionaries have the names (0002_names.sql).
    src_as                    UInt32 COMMENT 'Autonomous system of the source, 0 unknown' CODEC(ZSTD(3)),
    dst_as                    UInt32 COMMENT 'Autonomous system of the destination, 0 unknown' CODEC(ZSTD(3)),
    src_country               UInt16 COMMENT 'Country of the source: first letter * 256 + second, 0 unknown; weir_country() converts it to letters' CODEC(ZSTD(1)),
    dst_country               UInt16 COMMENT 'Country of the destination: first letter * 256 + second, 0 unknown; weir_country() converts it to letters' CODEC(ZSTD(1)),
    src_prefix                UInt32 COMMENT 'Longest declared prefix that the source was in, by its id in the table prefixes; 0 none' CODEC(ZSTD(3)),
    dst_prefix                UInt32 COMMENT 'Longest declared prefix that the destination was in, by its id in the table prefixes; 0 none' CODEC(ZSTD(3)),
    src_customer              UInt32 COMMENT 'Customer of the source''s prefix, by number; 0 none' CODEC(ZSTD(3)),
    dst_customer              UInt32 COMMENT 'Customer of the destination''s prefix, by number; 0 none' CODEC(ZSTD(3)),
    site_direction            Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Direction in which the flow was opened, seen from the probe''s site: out of it, into it, inside it, past it. unknown: the probe has no site, or no prefix is declared for its site' CODEC(ZSTD(1)),
    nation_direction          Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Direction in which the flow was opened, seen from the nation: out of it, into it, inside it, through it. unknown: no prefix is declared national' CODEC(ZSTD(1)),
    service                   UInt16 COMMENT 'Port of the service that the flow asked for, if it is registered (table services); 0 unknown' CODEC(ZSTD(1)),
    -- Computed from the offsets, when a query asks for them.
    first_seen                DateTime64(3, 'UTC') ALIAS toDateTime64(ts, 3, 'UTC') + toIntervalMillisecond(first_seen_offset_ms) COMMENT 'First packet of the flow in this interval',
    last_seen                 DateTime64(3, 'UTC') ALIAS first_seen + toIntervalMillisecond(last_seen_offset_ms) COMMENT 'Last packet of the flow in this interval',
    flow_start                DateTime64(3, 'UTC') ALIAS first_seen - toIntervalMillisecond(flow_age_ms) COMMENT 'First packet of the flow ever, in this interval or an earlier one',
    -- Stamped by the store, so that `weir storage` can correct the hourly rows from late records, and from the other records of
    -- their flows, instead of reading the whole hour again.
    late_at                   DateTime64(3, 'UTC') DEFAULT if(ts < now('UTC') - toIntervalSecond(90), now64(3, 'UTC'), toDateTime64(0, 3, 'UTC')) COMMENT 'When the store received the record, if that was more than 90 seconds after ts; else 1970' CODEC(ZSTD(1)),
    -- A flow's records are younger than its start: a question about a range of flow_start skips what is older.
    INDEX flow_start flow_start TYPE minmax GRANULARITY 1,
    -- By these two the service finds late records, and the other records of their flows.
    INDEX late_at late_at TYPE minmax GRANULARITY 1,
    INDEX dst_addr dst_addr TYPE minmax GRANULARITY 1,
    -- The "stored" of the ledger: the engine keeps it inside each part, so it is counted from the rows themselves.
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
COMMENT 'Flow records: the counts of one flow in one interval. Add up fwd_ and rev_ columns; for whole connections group by addresses, ports, protocol, vlan and flow_start. Ordered by five minutes of time, then probe and direction: restrict ts to a range';

-- Functions by which views write numbers, addresses and networks.

CREATE OR REPLACE FUNCTION weir_protocol_name AS (number) -> transform(number, [1, 2, 6, 17, 41, 47, 50, 51, 58, 89, 103, 132], ['ICMP', 'IGMP', 'TCP', 'UDP', 'IPv6', 'GRE', 'ESP', 'AH', 'ICMPv6', 'OSPF', 'PIM', 'SCTP'], toString(number));
CREATE OR REPLACE FUNCTION weir_country AS (code) -> if(code = 0, '', concat(char(intDiv(code, 256)), char(code % 256)));
CREATE OR REPLACE FUNCTION weir_addr AS (addr) -> if(startsWith(IPv6NumToString(addr), '::ffff:'), substring(IPv6NumToString(addr), 8), IPv6NumToString(addr));
CREATE OR REPLACE FUNCTION weir_is_ipv4 AS (addr) -> startsWith(IPv6NumToString(addr), '::ffff:');
CREATE OR REPLACE FUNCTION weir_addr_or_network AS (addr, network) -> concat(weir_addr(addr), multiIf(NOT network, '', weir_is_ipv4(addr), '/24', '/48'));

-- First and last address of '192.0.2.0/24', '2001:db8::/32' or one address.
CREATE OR REPLACE FUNCTION weir_range AS (network) -> IPv6CIDRToRange(
    toIPv6(splitByChar('/', network)[1]),
    if(position(network, '/') = 0, toUInt8(128), toUInt8(toUInt8(splitByChar('/', network)[2]) + if(position(network, ':') = 0, 96, 0))));
CREATE OR REPLACE FUNCTION weir_first AS (network) -> tupleElement(weir_range(network), 1);
CREATE OR REPLACE FUNCTION weir_last AS (network) -> tupleElement(weir_range(network), 2);

-- A value that all records of a flow share in the same 30 seconds, whichever of its ends they call the source: 128 bits, so
-- that no two flows share it.
CREATE OR REPLACE FUNCTION weir_flow AS (ts, record_kind, protocol, src_addr, src_port, dst_addr, dst_port) ->
    (
        cityHash64(src_addr, src_port) + cityHash64(dst_addr, dst_port) + cityHash64(intDiv(toUnixTimestamp(ts), 30), protocol, record_kind),
        xxHash64(src_addr, src_port) + xxHash64(dst_addr, dst_port)
    );

-- The database of the view ntopng.flows, which shows flows under the names that ntopng gives its columns.
CREATE DATABASE IF NOT EXISTS ntopng ENGINE = Atomic;
