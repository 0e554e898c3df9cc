-- The tiers after the raw records: hourly rows, kept for years, daily rows, kept for ever, and the notes of the service
-- `storage` about both. A flow that several probes saw counts once: a row says whether its records count for sums over several
-- probes (duplicate).

-- The hourly tier: who spoke with whom. One row has the traffic that one probe saw in one hour between two addresses by one
-- protocol and service. It is kept in two orders, by source and by destination, so that a question about an address reads the
-- rows of that address alone. Which of a flow's records counts is known only when all probes have reported, so `storage` fills
-- flows_hourly from flows, minutes after each window (weir_schema/hourly.py); views fill the tables derived from it, and drop a
-- block that comes again by its token.
CREATE TABLE IF NOT EXISTS flows_hourly
(
    ts               DateTime('UTC') COMMENT 'Start of the hour' CODEC(Delta, ZSTD(1)),
    probe            LowCardinality(String) COMMENT 'Name of the probe' CODEC(ZSTD(1)),
    record_kind      Enum8('flow' = 0, 'overflow' = 1) COMMENT 'flow: biflows. overflow: flows that the agent counted together, because it had reached a bound; an address that these do not name is ::' CODEC(ZSTD(1)),
    src_addr         IPv6 COMMENT 'Address of the source, the side that began the flow; IPv4 is mapped as ::ffff:a.b.c.d' CODEC(ZSTD(1)),
    dst_addr         IPv6 COMMENT 'Address of the destination; if folded, the first address of its /24 (IPv4) or /48 (IPv6)' CODEC(ZSTD(1)),
    folded           Bool COMMENT 'True if the row sums unanswered attempts, such as those of a scan, to all addresses of the network dst_addr' CODEC(ZSTD(1)),
    protocol         UInt8 COMMENT 'IP protocol number: 6 TCP, 17 UDP, 1 ICMP, 58 ICMPv6' CODEC(ZSTD(1)),
    port             UInt16 COMMENT 'Port of the service; if it is unknown, of the destination; 0 for ports of 32768 and more that are no service. For ICMP its type * 256 + code' CODEC(ZSTD(1)),
    src_prefix       UInt32 COMMENT 'Longest declared prefix that the source was in, by its id in the table prefixes; 0 none' CODEC(ZSTD(1)),
    dst_prefix       UInt32 COMMENT 'Longest declared prefix that the destination was in, by its id in the table prefixes; 0 none' CODEC(ZSTD(1)),
    src_customer     SimpleAggregateFunction(max, UInt32) COMMENT 'Customer of the source''s prefix, by number; 0 none' CODEC(ZSTD(1)),
    dst_customer     SimpleAggregateFunction(max, UInt32) COMMENT 'Customer of the destination''s prefix, by number; 0 none' CODEC(ZSTD(1)),
    src_as           SimpleAggregateFunction(max, UInt32) COMMENT 'Autonomous system of the source, 0 unknown' CODEC(ZSTD(3)),
    dst_as           SimpleAggregateFunction(max, UInt32) COMMENT 'Autonomous system of the destination, 0 unknown' CODEC(ZSTD(3)),
    src_country      SimpleAggregateFunction(max, UInt16) COMMENT 'Country of the source: first letter * 256 + second, 0 unknown' CODEC(ZSTD(1)),
    dst_country      SimpleAggregateFunction(max, UInt16) COMMENT 'Country of the destination: first letter * 256 + second, 0 unknown; weir_country() converts it to letters' CODEC(ZSTD(1)),
    site_direction   SimpleAggregateFunction(max, Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4)) COMMENT 'Direction in which the flows were opened, seen from the probe''s site' CODEC(ZSTD(1)),
    nation_direction SimpleAggregateFunction(max, Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4)) COMMENT 'Direction in which the flows were opened, seen from the nation' CODEC(ZSTD(1)),
    application_id   SimpleAggregateFunction(max, UInt16) COMMENT 'Application as nDPI numbers them, 0 unknown; of several in the hour, the one with the highest number' CODEC(T64, ZSTD(1)),
    records          SimpleAggregateFunction(sum, UInt64) COMMENT 'Interval records that were added up' CODEC(ZSTD(3)),
    flows            SimpleAggregateFunction(sum, UInt64) COMMENT 'Flows that began in the hour; summed over hours, they give all flows' CODEC(ZSTD(3)),
    fwd_packets      SimpleAggregateFunction(sum, UInt64) COMMENT 'Packets from source to destination' CODEC(T64, ZSTD(1)),
    fwd_octets       SimpleAggregateFunction(sum, UInt64) COMMENT 'Layer-3 octets from source to destination' CODEC(T64, ZSTD(1)),
    rev_packets      SimpleAggregateFunction(sum, UInt64) COMMENT 'Packets from destination to source' CODEC(T64, ZSTD(1)),
    rev_octets       SimpleAggregateFunction(sum, UInt64) COMMENT 'Layer-3 octets from destination to source' CODEC(T64, ZSTD(1)),
    fwd_tcp_syn      SimpleAggregateFunction(sum, UInt64) COMMENT 'SYN packets without ACK, source to destination' CODEC(T64, ZSTD(1)),
    rev_tcp_rst      SimpleAggregateFunction(sum, UInt64) COMMENT 'RST packets, destination to source' CODEC(T64, ZSTD(1)),
    duplicate        Bool COMMENT 'True if records of another probe count instead: sums over several probes leave the row out, sums of one probe include it',
    generation       UInt16 COMMENT 'Number of times that the raw records of the day had been dropped when the row was made'
)
ENGINE = AggregatingMergeTree
PARTITION BY toMonday(ts)
PRIMARY KEY (src_addr, dst_addr)
ORDER BY (src_addr, dst_addr, protocol, port, ts, probe, folded, record_kind, src_prefix, dst_prefix, duplicate, generation)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Hourly records with addresses, by source: add up, because rows of one hour may not have been merged yet; read v_hourly, or v_network for one address or prefix';

CREATE TABLE IF NOT EXISTS flows_hourly_by_destination AS flows_hourly
ENGINE = AggregatingMergeTree
PARTITION BY toMonday(ts)
PRIMARY KEY (dst_addr, src_addr)
ORDER BY (dst_addr, src_addr, protocol, port, ts, probe, folded, record_kind, src_prefix, dst_prefix, duplicate, generation)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'The rows of flows_hourly, by destination: read v_network';

CREATE MATERIALIZED VIEW IF NOT EXISTS fill_flows_hourly_by_destination TO flows_hourly_by_destination
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT * FROM flows_hourly
COMMENT 'Fills flows_hourly_by_destination from every block that is written to flows_hourly';

-- The network that stands for an address which never answered: its /24, or its /48.
CREATE OR REPLACE FUNCTION weir_network AS (addr, ip_version) -> tupleElement(IPv6CIDRToRange(addr, if(ip_version = 4, toUInt8(120), toUInt8(48))), 1);

-- An unanswered attempt, such as one of a scan, in one record: nothing came back, and nothing but SYNs went, or one single UDP
-- packet or echo request. Of a probe that sees one direction only, silence says nothing, but SYNs with nothing after them do.
CREATE OR REPLACE FUNCTION weir_unanswered AS (record_kind, rev_packets, protocol, fwd_packets, fwd_tcp_syn, dst_port, probe) ->
    rev_packets = 0 AND record_kind = 'flow'
    AND (
        (protocol = 6 AND fwd_packets = fwd_tcp_syn)
        OR (fwd_packets = 1 AND (protocol = 17 OR (protocol = 1 AND dst_port = 2048) OR (protocol = 58 AND dst_port = 32768))
            AND NOT dictGetOrDefault('probe_places', 'one_way', tuple(toString(probe)), false)));

-- Ports that are chosen anew for each flow say nothing after an hour.
CREATE OR REPLACE FUNCTION weir_kept_port AS (service, record_kind, protocol, dst_port) ->
    multiIf(service != 0, service, record_kind = 'overflow' OR protocol IN (1, 58) OR dst_port < 32768, dst_port, toUInt16(0));

-- The records that arrived, from which `storage` knows the hours that it must write, and the hours that it has written.
CREATE TABLE IF NOT EXISTS arrivals
(
    ts      DateTime('UTC') COMMENT 'Minute of the records'' intervals' CODEC(Delta, ZSTD(1)),
    records SimpleAggregateFunction(sum, UInt64) COMMENT 'Number of records stored' CODEC(T64, ZSTD(1)),
    first   SimpleAggregateFunction(min, DateTime('UTC')) COMMENT 'When the first of these records were stored' CODEC(ZSTD(1)),
    last    SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'When the last of these records were stored' CODEC(ZSTD(1))
)
ENGINE = AggregatingMergeTree
ORDER BY ts
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Number of raw records that arrived, by minute of their intervals: an hour with more of them than were rolled up is rolled up again. Removals and drops change nothing here';

CREATE MATERIALIZED VIEW IF NOT EXISTS fill_arrivals TO arrivals
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT toStartOfMinute(ts) AS ts, count() AS records, now('UTC') AS first, now('UTC') AS last
FROM flows
GROUP BY ts
COMMENT 'Fills arrivals from every block that is written to flows';

CREATE TABLE IF NOT EXISTS hours
(
    hour       DateTime('UTC') COMMENT 'Start of the hour',
    until      DateTime('UTC') COMMENT 'Intervals of the hour that begin before this time are in the hourly rows',
    records    UInt64 COMMENT 'Number of records of these intervals that had arrived then; a different number in arrivals means that more have come since',
    generation UInt16 COMMENT 'Number of times that the raw records of the day have been dropped: rows of the hour with a lower number are final',
    state      Enum8('done' = 0, 'applying' = 1, 'unfinished' = 2, 'dropping' = 3, 'closed' = 4) COMMENT 'done: the rows are written. applying: the rows in hours_staged_<hour, in seconds from 1970> are being written. unfinished: a part of the hour is written. dropping: the raw records are being dropped. closed: the hourly rows were dropped before the raw records; nothing is added until the raw records are dropped, too',
    token      String COMMENT 'Token of the block in hours_staged_<hour>, so that it is never written twice',
    noted_at   DateTime64(6, 'UTC') COMMENT 'When the row was written; the newest row of an hour counts',
    taken      Array(UInt64) COMMENT 'Of each minute of the hour: its records that came until this moment (flows.late_at), milliseconds from 1970, are in the rows; 0: none are yet. Empty: not known',
    rule       UInt64 COMMENT 'Value of the statement and of the ranks of probes by which the rows were made; if it is another now, late records correct the whole hour. 0: not known'
)
ENGINE = ReplacingMergeTree(noted_at)
ORDER BY hour
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Hours that are rolled up from flows into the hourly tables';

-- The daily tier: every host and every port, filled by views from each block of hourly rows.
CREATE TABLE IF NOT EXISTS hosts_daily
(
    day              Date COMMENT 'Day, UTC' CODEC(Delta, ZSTD(1)),
    probe            LowCardinality(String) COMMENT 'Name of the probe that saw the traffic' CODEC(ZSTD(1)),
    addr             IPv6 COMMENT 'Address of the host, IPv4 mapped; for a network its first address; :: for traffic of overflow records that name no address' CODEC(ZSTD(1)),
    network          Bool COMMENT 'True if the row stands not for a host but for a /24 (IPv4) or /48 (IPv6) that received unanswered attempts' CODEC(ZSTD(1)),
    prefix           UInt32 COMMENT 'Longest declared prefix that the host was in, by its id in the table prefixes; 0 none' CODEC(ZSTD(1)),
    duplicate        Bool COMMENT 'True if records of another probe count instead: sums over several probes leave the row out, sums of one probe include it',
    customer         SimpleAggregateFunction(max, UInt32) COMMENT 'Customer of that prefix, by number; 0 none' CODEC(ZSTD(1)),
    as_number        SimpleAggregateFunction(max, UInt32) COMMENT 'Autonomous system, 0 unknown' CODEC(ZSTD(1)),
    country          SimpleAggregateFunction(max, UInt16) COMMENT 'Country: first letter * 256 + second, 0 unknown' CODEC(ZSTD(1)),
    sent_packets     SimpleAggregateFunction(sum, UInt64) COMMENT 'Packets that the host sent' CODEC(T64, ZSTD(1)),
    sent_octets      SimpleAggregateFunction(sum, UInt64) COMMENT 'Layer-3 octets that the host sent' CODEC(T64, ZSTD(1)),
    received_packets SimpleAggregateFunction(sum, UInt64) COMMENT 'Packets that the host received' CODEC(T64, ZSTD(1)),
    received_octets  SimpleAggregateFunction(sum, UInt64) COMMENT 'Layer-3 octets that the host received' CODEC(T64, ZSTD(1)),
    flows_begun      SimpleAggregateFunction(sum, UInt64) COMMENT 'Flows that the host began' CODEC(T64, ZSTD(1)),
    flows_received   SimpleAggregateFunction(sum, UInt64) COMMENT 'Flows that other hosts began to the host' CODEC(T64, ZSTD(1)),
    syn_sent         SimpleAggregateFunction(sum, UInt64) COMMENT 'SYN packets without ACK that the host sent for flows that it began' CODEC(T64, ZSTD(1)),
    unanswered       SimpleAggregateFunction(sum, UInt64) COMMENT 'Packets of unanswered connection attempts: sent by the host or, for a network, sent to it' CODEC(T64, ZSTD(1))
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(day)
PRIMARY KEY (addr, day)
ORDER BY (addr, day, probe, network, prefix, duplicate)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Traffic that each host sent and received on each day, as each probe saw it; read hosts. Over all rows every packet is counted for its sender and for its receiver';

CREATE MATERIALIZED VIEW IF NOT EXISTS fill_hosts_daily_sources TO hosts_daily
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    toDate(ts) AS day, probe, src_addr AS addr, false AS network, src_prefix AS prefix, duplicate,
    max(src_customer) AS customer, max(src_as) AS as_number, max(src_country) AS country,
    sum(fwd_packets) AS sent_packets, sum(fwd_octets) AS sent_octets,
    sum(rev_packets) AS received_packets, sum(rev_octets) AS received_octets,
    sum(flows) AS flows_begun, toUInt64(0) AS flows_received, sum(fwd_tcp_syn) AS syn_sent,
    sumIf(fwd_packets, folded) AS unanswered
FROM flows_hourly
GROUP BY day, probe, addr, network, prefix, duplicate
COMMENT 'Fills hosts_daily with the sources of every block that is written to flows_hourly';

CREATE MATERIALIZED VIEW IF NOT EXISTS fill_hosts_daily_destinations TO hosts_daily
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    toDate(ts) AS day, probe, dst_addr AS addr, folded AS network, dst_prefix AS prefix, duplicate,
    max(dst_customer) AS customer, max(dst_as) AS as_number, max(dst_country) AS country,
    sum(rev_packets) AS sent_packets, sum(rev_octets) AS sent_octets,
    sum(fwd_packets) AS received_packets, sum(fwd_octets) AS received_octets,
    toUInt64(0) AS flows_begun, sum(flows) AS flows_received, toUInt64(0) AS syn_sent,
    sumIf(fwd_packets, folded) AS unanswered
FROM flows_hourly
GROUP BY day, probe, addr, network, prefix, duplicate
COMMENT 'Fills hosts_daily with the destinations of every block that is written to flows_hourly';

-- All ports of services, so that the largest by octets, packets or flows are an ORDER BY away. There are as few as there are
-- ports, and the view adds up the hourly rows of each block first.
CREATE TABLE IF NOT EXISTS ports_daily
(
    day        Date COMMENT 'Day, UTC' CODEC(Delta, ZSTD(1)),
    probe      LowCardinality(String) COMMENT 'Name of the probe that saw the traffic' CODEC(ZSTD(1)),
    protocol   UInt8 COMMENT 'IP protocol number: 6 TCP, 17 UDP' CODEC(ZSTD(1)),
    port       UInt16 COMMENT 'Port of the service; if it is unknown, of the destination; 0 for ports of 32768 and more that are no service' CODEC(ZSTD(1)),
    duplicate  Bool COMMENT 'True if records of another probe count instead: sums over several probes leave the row out, sums of one probe include it' CODEC(ZSTD(1)),
    packets    SimpleAggregateFunction(sum, UInt64) COMMENT 'Packets, both directions' CODEC(T64, ZSTD(1)),
    octets     SimpleAggregateFunction(sum, UInt64) COMMENT 'Layer-3 octets, both directions' CODEC(T64, ZSTD(1)),
    flows      SimpleAggregateFunction(sum, UInt64) COMMENT 'Flows that began on the day' CODEC(T64, ZSTD(1)),
    unanswered SimpleAggregateFunction(sum, UInt64) COMMENT 'Packets of unanswered connection attempts to the port' CODEC(T64, ZSTD(1))
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(day)
ORDER BY (day, protocol, port, probe, duplicate)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Traffic of each TCP and UDP port on each day, as each probe saw it; read v_ports_daily';

CREATE MATERIALIZED VIEW IF NOT EXISTS fill_ports_daily TO ports_daily
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    toDate(ts) AS day, probe, protocol, port, duplicate,
    sum(fwd_packets + rev_packets) AS packets, sum(fwd_octets + rev_octets) AS octets, sum(h.flows) AS flows,
    sumIf(fwd_packets, folded) AS unanswered
FROM flows_hourly AS h
WHERE protocol IN (6, 17)
GROUP BY day, probe, protocol, port, duplicate
COMMENT 'Fills ports_daily from every block that is written to flows_hourly';

-- `weir storage roll-up` writes the next three tables when a day is over, and again if later data changes it. Lists of talkers
-- hold the largest by octets, by packets and by flows, each once.
CREATE TABLE IF NOT EXISTS talkers_daily
(
    day              Date COMMENT 'Day, UTC' CODEC(Delta, ZSTD(1)),
    probe            LowCardinality(String) COMMENT 'Name of the probe that saw the traffic' CODEC(ZSTD(1)),
    rank             UInt16 COMMENT 'Rank by octets sent and received among the hosts of the list, from 1; 0 for the row of all hosts that are not in the list' CODEC(T64, ZSTD(1)),
    packets_rank     UInt16 COMMENT 'Rank by packets sent and received, from 1; 0 if it is above 1,000' CODEC(T64, ZSTD(1)),
    flows_rank       UInt16 COMMENT 'Rank by flows begun and received, from 1; 0 if it is above 1,000' CODEC(T64, ZSTD(1)),
    addr             IPv6 COMMENT 'Address of the host, IPv4 mapped; for a network its first address; :: for the remainder' CODEC(ZSTD(1)),
    network          Bool COMMENT 'True if the row stands not for a host but for a network that received unanswered attempts' CODEC(ZSTD(1)),
    customer         UInt32 COMMENT 'Customer of the host, by number; 0 none' CODEC(ZSTD(1)),
    as_number        UInt32 COMMENT 'Autonomous system, 0 unknown' CODEC(ZSTD(1)),
    country          UInt16 COMMENT 'Country: first letter * 256 + second, 0 unknown' CODEC(ZSTD(1)),
    hosts            UInt64 COMMENT 'Number of hosts that the row stands for: 1, or the number of all other hosts in the remainder' CODEC(T64, ZSTD(1)),
    sent_packets     UInt64 COMMENT 'Packets sent' CODEC(T64, ZSTD(1)),
    sent_octets      UInt64 COMMENT 'Layer-3 octets sent' CODEC(T64, ZSTD(1)),
    received_packets UInt64 COMMENT 'Packets received' CODEC(T64, ZSTD(1)),
    received_octets  UInt64 COMMENT 'Layer-3 octets received' CODEC(T64, ZSTD(1)),
    flows_begun      UInt64 COMMENT 'Flows that the host began' CODEC(T64, ZSTD(1)),
    flows_received   UInt64 COMMENT 'Flows that other hosts began to the host' CODEC(T64, ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(day)
ORDER BY (addr, day, probe)
SETTINGS non_replicated_deduplication_window = 1000, lightweight_mutation_projection_mode = 'rebuild'
COMMENT 'The 10,000 hosts with most octets of each probe and day, the 1,000 with most packets and with most flows, each once, and a row for all others together (rank 0); read v_talkers_daily';

-- The largest hosts over all probes: a year of them is some million rows, where the lists of 200 probes are hundreds of
-- millions.
CREATE TABLE IF NOT EXISTS national_talkers_daily
(
    day              Date COMMENT 'Day, UTC' CODEC(Delta, ZSTD(1)),
    rank             UInt16 COMMENT 'Rank by octets sent and received among the hosts of the list, from 1; 0 for the row of all hosts that are not in the list' CODEC(T64, ZSTD(1)),
    packets_rank     UInt16 COMMENT 'Rank by packets sent and received, from 1; 0 if it is above 1,000' CODEC(T64, ZSTD(1)),
    flows_rank       UInt16 COMMENT 'Rank by flows begun and received, from 1; 0 if it is above 1,000' CODEC(T64, ZSTD(1)),
    addr             IPv6 COMMENT 'Address of the host, IPv4 mapped; for a network its first address; :: for the remainder' CODEC(ZSTD(1)),
    network          Bool COMMENT 'True if the row stands not for a host but for a network that received unanswered attempts' CODEC(ZSTD(1)),
    customer         UInt32 COMMENT 'Customer of the host, by number; 0 none' CODEC(ZSTD(1)),
    as_number        UInt32 COMMENT 'Autonomous system, 0 unknown' CODEC(ZSTD(1)),
    country          UInt16 COMMENT 'Country: first letter * 256 + second, 0 unknown' CODEC(ZSTD(1)),
    probes           UInt16 COMMENT 'Number of probes that saw the host' CODEC(T64, ZSTD(1)),
    hosts            UInt64 COMMENT 'Number of hosts that the row stands for: 1, or the number of all other hosts in the remainder' CODEC(T64, ZSTD(1)),
    sent_packets     UInt64 COMMENT 'Packets sent' CODEC(T64, ZSTD(1)),
    sent_octets      UInt64 COMMENT 'Layer-3 octets sent' CODEC(T64, ZSTD(1)),
    received_packets UInt64 COMMENT 'Packets received' CODEC(T64, ZSTD(1)),
    received_octets  UInt64 COMMENT 'Layer-3 octets received' CODEC(T64, ZSTD(1)),
    flows_begun      UInt64 COMMENT 'Flows that the host began' CODEC(T64, ZSTD(1)),
    flows_received   UInt64 COMMENT 'Flows that other hosts began to the host' CODEC(T64, ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(day)
ORDER BY (day, rank)
SETTINGS non_replicated_deduplication_window = 1000, lightweight_mutation_projection_mode = 'rebuild'
COMMENT 'The 10,000 hosts with most octets of each day, the 1,000 with most packets and with most flows, each once, over all probes, and a row for all others together (rank 0); read v_national_talkers_daily';

CREATE TABLE IF NOT EXISTS mixes_daily
(
    day             Date COMMENT 'Day, UTC' CODEC(Delta, ZSTD(1)),
    scope           Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: traffic that one probe saw; inside is its site. all: all probes, each flow once; inside is the nation. customer: traffic of one customer, over all probes, each flow once; inside is the customer' CODEC(ZSTD(1)),
    probe           LowCardinality(String) COMMENT 'Name of the probe, empty for all and for customers',
    customer        UInt32 COMMENT 'Customer for scope customer, else 0' CODEC(ZSTD(1)),
    dimension       Enum8('total' = 1, 'application' = 2, 'as' = 3, 'country' = 4, 'customer' = 5, 'as_application' = 6) COMMENT 'Dimension of the row. as, country: those of the outside end; if there is none, of the sender. customer: that of the inside end; if there is none, of the sender. as_application: each pair of such an AS and an application' CODEC(ZSTD(1)),
    direction       Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Direction of the packets: in is from outside to inside' CODEC(ZSTD(1)),
    number          UInt32 COMMENT 'Application, AS, country (first letter * 256 + second) or customer; 0 unknown or none' CODEC(T64, ZSTD(1)),
    application     UInt16 COMMENT 'Dimension as_application: the application of the pair, whose AS is number; 0 unknown. 0 in all other dimensions' CODEC(T64, ZSTD(1)),
    remainder       Bool COMMENT 'True for the row that sums all values that had no row of their own in a window' CODEC(ZSTD(1)),
    windows         UInt32 COMMENT 'Number of windows of the day that have this row' CODEC(T64, ZSTD(1)),
    octets          UInt64 COMMENT 'Layer-3 octets' CODEC(T64, ZSTD(1)),
    packets         UInt64 COMMENT 'Packets' CODEC(T64, ZSTD(1)),
    flows           UInt64 COMMENT 'Flows that began on the day' CODEC(T64, ZSTD(1)),
    ipv6_octets     UInt64 COMMENT 'IPv6 part of octets' CODEC(T64, ZSTD(1)),
    ipv6_packets    UInt64 COMMENT 'IPv6 part of packets' CODEC(T64, ZSTD(1)),
    ipv6_flows      UInt64 COMMENT 'IPv6 part of flows' CODEC(T64, ZSTD(1)),
    overflow_octets UInt64 COMMENT 'The part of octets that came in overflow records' CODEC(T64, ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(day)
ORDER BY (dimension, scope, probe, customer, direction, number, remainder, day)
SETTINGS non_replicated_deduplication_window = 1000, lightweight_mutation_projection_mode = 'rebuild'
COMMENT 'Totals, and applications, AS, countries, customers, and AS with application of each day: the windows of mixes added up; read v_mixes_daily';

-- The windows from which a daily list was made: it is not made again from fewer.
CREATE TABLE IF NOT EXISTS roll_ups
(
    day         Date COMMENT 'Day, UTC',
    source      LowCardinality(String) COMMENT 'Table that was rolled up: hosts_daily to talkers_daily, mixes to mixes_daily',
    fingerprint UInt64 COMMENT 'Fingerprint of the source when it was rolled up; a different one now means that later data came',
    rows        UInt64 COMMENT 'Number of rows written',
    done_at     DateTime64(3, 'UTC') COMMENT 'When the roll-up was done',
    windows     Array(Tuple(list UInt64, starts Array(UInt32))) COMMENT 'Starts of the windows that were rolled up, in seconds, by list (a hash of scope, probe, customer and length)' CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree(done_at)
ORDER BY (day, source)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Days that are rolled up, and the state of their source then';

-- Merges and removals make the parts of a partition new, so the service notes when the partition appeared.
CREATE TABLE IF NOT EXISTS partitions_seen
(
    name       LowCardinality(String) COMMENT 'Name of the table',
    partition  String COMMENT 'Name of the partition',
    first_seen SimpleAggregateFunction(min, DateTime('UTC')) COMMENT 'When the partition''s oldest part was written, as far as was known when the partition was first seen'
)
ENGINE = AggregatingMergeTree
ORDER BY (name, partition)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'When each partition first appeared: rows of the future, or of an old capture, are kept from then on, however often they are rewritten';
