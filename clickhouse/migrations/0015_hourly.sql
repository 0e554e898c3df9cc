-- The hourly tier: who spoke with whom, kept for years. One row is what one probe saw in one hour between two addresses
-- by one protocol and service. It is kept in two orders, by source and by destination, so that a question about an address
-- reads the rows of that address alone. Both are filled by views from every block that is written to flows: a block that
-- comes again is dropped by its token in flows and in them.

-- The network that stands for an address which never answered: its /24, or its /48.
CREATE OR REPLACE FUNCTION weir_network AS (addr, ip_version) -> tupleElement(IPv6CIDRToRange(addr, if(ip_version = 4, toUInt8(120), toUInt8(48))), 1);

-- What an unanswered scan looks like in one record: nothing came back, and nothing but SYNs went, or one single UDP packet
-- or echo request. Of a probe that sees one direction only, silence says nothing, but SYNs with nothing after them do.
CREATE OR REPLACE FUNCTION weir_unanswered AS (record_kind, rev_packets, protocol, fwd_packets, fwd_tcp_syn, dst_port, probe) ->
    rev_packets = 0 AND record_kind = 'flow'
    AND (
        (protocol = 6 AND fwd_packets = fwd_tcp_syn)
        OR (fwd_packets = 1 AND (protocol = 17 OR (protocol = 1 AND dst_port = 2048) OR (protocol = 58 AND dst_port = 32768))
            AND NOT dictGetOrDefault('probe_places', 'one_way', tuple(toString(probe)), false)));

-- Ports that are chosen anew for each flow say nothing after an hour.
CREATE OR REPLACE FUNCTION weir_kept_port AS (service, record_kind, protocol, dst_port) ->
    multiIf(service != 0, service, record_kind = 'overflow' OR protocol IN (1, 58) OR dst_port < 32768, dst_port, toUInt16(0));

CREATE TABLE IF NOT EXISTS flows_hourly
(
    ts               DateTime('UTC') COMMENT 'Start of the hour' CODEC(Delta, ZSTD(1)),
    probe            LowCardinality(String) COMMENT 'Name of the probe' CODEC(ZSTD(1)),
    record_kind      Enum8('flow' = 0, 'overflow' = 1) COMMENT 'flow: biflows. overflow: flows that the agent counted together, because a bound was reached; an address that they do not name is ::' CODEC(ZSTD(1)),
    src_addr         IPv6 COMMENT 'Address of the source, the side that began the flow; IPv4 is mapped as ::ffff:a.b.c.d' CODEC(ZSTD(1)),
    dst_addr         IPv6 COMMENT 'Address of the destination; where folded, the first address of its /24 (IPv4) or /48' CODEC(ZSTD(1)),
    folded           Bool COMMENT 'Unanswered attempts, such as a scan: all that went to the network of dst_addr is in this row' CODEC(ZSTD(1)),
    protocol         UInt8 COMMENT 'IP protocol number: 6 TCP, 17 UDP, 1 ICMP, 58 ICMPv6' CODEC(ZSTD(1)),
    port             UInt16 COMMENT 'Port of the service, else of the destination; 0 for ports of 32768 and more that are no service. For ICMP its type * 256 + code' CODEC(ZSTD(1)),
    src_prefix       UInt32 COMMENT 'Longest declared prefix that the source was in, by its id in the table prefixes; 0 none' CODEC(ZSTD(1)),
    dst_prefix       UInt32 COMMENT 'Longest declared prefix that the destination was in, likewise' CODEC(ZSTD(1)),
    src_customer     SimpleAggregateFunction(max, UInt32) COMMENT 'Customer of the source''s prefix, by number; 0 none' CODEC(ZSTD(1)),
    dst_customer     SimpleAggregateFunction(max, UInt32) COMMENT 'Customer of the destination''s prefix, by number; 0 none' CODEC(ZSTD(1)),
    src_as           SimpleAggregateFunction(max, UInt32) COMMENT 'Autonomous system of the source, 0 unknown' CODEC(ZSTD(3)),
    dst_as           SimpleAggregateFunction(max, UInt32) COMMENT 'Autonomous system of the destination, 0 unknown' CODEC(ZSTD(3)),
    src_country      SimpleAggregateFunction(max, UInt16) COMMENT 'Country of the source: first letter * 256 + second, 0 unknown' CODEC(ZSTD(1)),
    dst_country      SimpleAggregateFunction(max, UInt16) COMMENT 'Country of the destination, likewise' CODEC(ZSTD(1)),
    site_direction   SimpleAggregateFunction(max, Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4)) COMMENT 'Which way the flows were opened, seen from the probe''s site' CODEC(ZSTD(1)),
    nation_direction SimpleAggregateFunction(max, Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4)) COMMENT 'Which way the flows were opened, seen from the nation' CODEC(ZSTD(1)),
    application_id   SimpleAggregateFunction(max, UInt16) COMMENT 'Application as nDPI numbers them, 0 unknown; of several in the hour the one with the highest number' CODEC(T64, ZSTD(1)),
    records          SimpleAggregateFunction(sum, UInt64) COMMENT 'Interval records that were added up' CODEC(ZSTD(3)),
    flows            SimpleAggregateFunction(sum, UInt64) COMMENT 'Flows that began in the hour; over hours they add up to all flows' CODEC(ZSTD(3)),
    fwd_packets      SimpleAggregateFunction(sum, UInt64) COMMENT 'Packets from source to destination' CODEC(T64, ZSTD(1)),
    fwd_octets       SimpleAggregateFunction(sum, UInt64) COMMENT 'Layer-3 octets from source to destination' CODEC(T64, ZSTD(1)),
    rev_packets      SimpleAggregateFunction(sum, UInt64) COMMENT 'Packets from destination to source' CODEC(T64, ZSTD(1)),
    rev_octets       SimpleAggregateFunction(sum, UInt64) COMMENT 'Layer-3 octets from destination to source' CODEC(T64, ZSTD(1)),
    fwd_tcp_syn      SimpleAggregateFunction(sum, UInt64) COMMENT 'SYN packets without ACK, source to destination' CODEC(T64, ZSTD(1)),
    rev_tcp_rst      SimpleAggregateFunction(sum, UInt64) COMMENT 'RST packets, destination to source' CODEC(T64, ZSTD(1))
)
ENGINE = AggregatingMergeTree
PARTITION BY toMonday(ts)
PRIMARY KEY (src_addr, dst_addr)
ORDER BY (src_addr, dst_addr, protocol, port, ts, probe, folded, record_kind, src_prefix, dst_prefix)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Hourly records with addresses, by source: add up, for rows of one hour may not have been joined yet; read v_hourly, or v_network for one address or prefix';

CREATE TABLE IF NOT EXISTS flows_hourly_by_destination AS flows_hourly
ENGINE = AggregatingMergeTree
PARTITION BY toMonday(ts)
PRIMARY KEY (dst_addr, src_addr)
ORDER BY (dst_addr, src_addr, protocol, port, ts, probe, folded, record_kind, src_prefix, dst_prefix)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'The rows of flows_hourly, by destination: read v_network';

CREATE MATERIALIZED VIEW IF NOT EXISTS fill_flows_hourly TO flows_hourly
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    toStartOfHour(f.ts) AS ts, probe, record_kind, src_addr,
    weir_unanswered(record_kind, rev_packets, protocol, fwd_packets, fwd_tcp_syn, dst_port, probe) AS folded,
    if(folded, weir_network(f.dst_addr, ip_version), f.dst_addr) AS dst_addr,
    protocol, weir_kept_port(service, record_kind, protocol, dst_port) AS port,
    src_prefix, dst_prefix, src_customer, dst_customer, src_as, dst_as, src_country, dst_country, site_direction, nation_direction,
    application_id, toUInt64(1) AS records, toUInt64(record_kind = 'flow' AND first_seen = flow_start) AS flows,
    fwd_packets, fwd_octets, rev_packets, rev_octets, toUInt64(f.fwd_tcp_syn) AS fwd_tcp_syn, toUInt64(f.rev_tcp_rst) AS rev_tcp_rst
FROM flows AS f
COMMENT 'Fills flows_hourly from every block that is written to flows';

CREATE MATERIALIZED VIEW IF NOT EXISTS fill_flows_hourly_by_destination TO flows_hourly_by_destination
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT * FROM flows_hourly
COMMENT 'Fills flows_hourly_by_destination from every block that is written to flows_hourly';
