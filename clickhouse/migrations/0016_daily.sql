-- The daily tier, kept for ever: every host, the top talkers of each probe, and the mixes.

CREATE TABLE IF NOT EXISTS hosts_daily
(
    day              Date COMMENT 'Day, UTC' CODEC(Delta, ZSTD(1)),
    probe            LowCardinality(String) COMMENT 'Name of the probe that saw it' CODEC(ZSTD(1)),
    addr             IPv6 COMMENT 'Address of the host, IPv4 mapped; for a network its first address; :: for what overflow records do not name' CODEC(ZSTD(1)),
    network          Bool COMMENT 'Not a host but a /24 (IPv4) or /48 that unanswered attempts went to' CODEC(ZSTD(1)),
    prefix           UInt32 COMMENT 'Longest declared prefix that it was in, by its id in the table prefixes; 0 none' CODEC(ZSTD(1)),
    customer         SimpleAggregateFunction(max, UInt32) COMMENT 'Customer of that prefix, by number; 0 none' CODEC(ZSTD(1)),
    as_number        SimpleAggregateFunction(max, UInt32) COMMENT 'Autonomous system, 0 unknown' CODEC(ZSTD(1)),
    country          SimpleAggregateFunction(max, UInt16) COMMENT 'Country: first letter * 256 + second, 0 unknown' CODEC(ZSTD(1)),
    sent_packets     SimpleAggregateFunction(sum, UInt64) COMMENT 'Packets that it sent' CODEC(T64, ZSTD(1)),
    sent_octets      SimpleAggregateFunction(sum, UInt64) COMMENT 'Layer-3 octets that it sent' CODEC(T64, ZSTD(1)),
    received_packets SimpleAggregateFunction(sum, UInt64) COMMENT 'Packets that it received' CODEC(T64, ZSTD(1)),
    received_octets  SimpleAggregateFunction(sum, UInt64) COMMENT 'Layer-3 octets that it received' CODEC(T64, ZSTD(1)),
    flows_begun      SimpleAggregateFunction(sum, UInt64) COMMENT 'Flows that it began' CODEC(T64, ZSTD(1)),
    flows_received   SimpleAggregateFunction(sum, UInt64) COMMENT 'Flows that others began to it' CODEC(T64, ZSTD(1)),
    syn_sent         SimpleAggregateFunction(sum, UInt64) COMMENT 'SYN packets without ACK that it sent for flows that it began' CODEC(T64, ZSTD(1)),
    unanswered       SimpleAggregateFunction(sum, UInt64) COMMENT 'Packets of unanswered attempts: that it sent, or for a network that went there' CODEC(T64, ZSTD(1))
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(day)
PRIMARY KEY (addr, day)
ORDER BY (addr, day, probe, network, prefix)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'What each host sent and received on each day, as each probe saw it; read hosts. Over all rows every packet is counted for its sender and for its receiver';

CREATE MATERIALIZED VIEW IF NOT EXISTS fill_hosts_daily_sources TO hosts_daily
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    toDate(ts) AS day, probe, src_addr AS addr, false AS network, src_prefix AS prefix,
    max(src_customer) AS customer, max(src_as) AS as_number, max(src_country) AS country,
    sum(fwd_packets) AS sent_packets, sum(fwd_octets) AS sent_octets,
    sum(rev_packets) AS received_packets, sum(rev_octets) AS received_octets,
    sum(flows) AS flows_begun, toUInt64(0) AS flows_received, sum(fwd_tcp_syn) AS syn_sent,
    sumIf(fwd_packets, folded) AS unanswered
FROM flows_hourly
GROUP BY day, probe, addr, network, prefix
COMMENT 'Fills hosts_daily with the sources of every block that is written to flows_hourly';

CREATE MATERIALIZED VIEW IF NOT EXISTS fill_hosts_daily_destinations TO hosts_daily
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    toDate(ts) AS day, probe, dst_addr AS addr, folded AS network, dst_prefix AS prefix,
    max(dst_customer) AS customer, max(dst_as) AS as_number, max(dst_country) AS country,
    sum(rev_packets) AS sent_packets, sum(rev_octets) AS sent_octets,
    sum(fwd_packets) AS received_packets, sum(fwd_octets) AS received_octets,
    toUInt64(0) AS flows_begun, sum(flows) AS flows_received, toUInt64(0) AS syn_sent,
    sumIf(fwd_packets, folded) AS unanswered
FROM flows_hourly
GROUP BY day, probe, addr, network, prefix
COMMENT 'Fills hosts_daily with the destinations of every block that is written to flows_hourly';

-- What `weir storage roll-up` writes when a day is over, and writes again where later data changed it.

CREATE TABLE IF NOT EXISTS talkers_daily
(
    day              Date COMMENT 'Day, UTC' CODEC(Delta, ZSTD(1)),
    probe            LowCardinality(String) COMMENT 'Name of the probe that saw it' CODEC(ZSTD(1)),
    rank             UInt16 COMMENT 'Place by octets sent and received, from 1; 0 for all that is not in the list' CODEC(T64, ZSTD(1)),
    addr             IPv6 COMMENT 'Address of the host, IPv4 mapped; for a network its first address; :: for the remainder' CODEC(ZSTD(1)),
    network          Bool COMMENT 'Not a host but a network that unanswered attempts went to' CODEC(ZSTD(1)),
    customer         UInt32 COMMENT 'Customer of the host, by number; 0 none' CODEC(ZSTD(1)),
    as_number        UInt32 COMMENT 'Autonomous system, 0 unknown' CODEC(ZSTD(1)),
    country          UInt16 COMMENT 'Country: first letter * 256 + second, 0 unknown' CODEC(ZSTD(1)),
    hosts            UInt64 COMMENT 'Hosts that the row stands for: 1, and in the remainder as many as are left' CODEC(T64, ZSTD(1)),
    sent_packets     UInt64 COMMENT 'Packets sent' CODEC(T64, ZSTD(1)),
    sent_octets      UInt64 COMMENT 'Layer-3 octets sent' CODEC(T64, ZSTD(1)),
    received_packets UInt64 COMMENT 'Packets received' CODEC(T64, ZSTD(1)),
    received_octets  UInt64 COMMENT 'Layer-3 octets received' CODEC(T64, ZSTD(1)),
    flows_begun      UInt64 COMMENT 'Flows that it began' CODEC(T64, ZSTD(1)),
    flows_received   UInt64 COMMENT 'Flows that others began to it' CODEC(T64, ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(day)
ORDER BY (addr, day, probe)
SETTINGS non_replicated_deduplication_window = 1000, lightweight_mutation_projection_mode = 'rebuild'
COMMENT 'The 10,000 hosts with most octets of each probe and day, and a row for all others together (rank 0); read v_talkers_daily';

CREATE TABLE IF NOT EXISTS mixes_daily
(
    day            Date COMMENT 'Day, UTC' CODEC(Delta, ZSTD(1)),
    scope          Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: what one probe saw, inside is its site. all: all probes, each flow once, inside is the nation. customer: of these, what one customer had; inside is the customer' CODEC(ZSTD(1)),
    probe          LowCardinality(String) COMMENT 'Name of the probe, empty for all and for customers',
    customer       UInt32 COMMENT 'Customer of scope customer, else 0' CODEC(ZSTD(1)),
    dimension      Enum8('total' = 1, 'application' = 2, 'as' = 3, 'country' = 4, 'customer' = 5) COMMENT 'What the rows are by. as, country: of the end outside, else of the sender. customer: of the end inside, else of the sender' CODEC(ZSTD(1)),
    direction      Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Which way the packets went: in is from outside to inside' CODEC(ZSTD(1)),
    number         UInt32 COMMENT 'Application, AS, country (first letter * 256 + second) or customer; 0 unknown or none' CODEC(T64, ZSTD(1)),
    remainder      Bool COMMENT 'All that was in no row of its own in a window' CODEC(ZSTD(1)),
    windows        UInt32 COMMENT 'Windows of the day that the row is in' CODEC(T64, ZSTD(1)),
    octets         UInt64 COMMENT 'Layer-3 octets' CODEC(T64, ZSTD(1)),
    packets        UInt64 COMMENT 'Packets' CODEC(T64, ZSTD(1)),
    flows          UInt64 COMMENT 'Flows that began on the day' CODEC(T64, ZSTD(1)),
    ipv6_octets    UInt64 COMMENT 'Of octets, IPv6' CODEC(T64, ZSTD(1)),
    ipv6_packets   UInt64 COMMENT 'Of packets, IPv6' CODEC(T64, ZSTD(1)),
    ipv6_flows     UInt64 COMMENT 'Of flows, IPv6' CODEC(T64, ZSTD(1)),
    overflow_octets UInt64 COMMENT 'Of octets, what came in overflow records' CODEC(T64, ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(day)
ORDER BY (dimension, scope, probe, customer, direction, number, remainder, day)
SETTINGS non_replicated_deduplication_window = 1000, lightweight_mutation_projection_mode = 'rebuild'
COMMENT 'Totals, and applications, AS, countries and customers of each day: the windows of mixes added up; read v_mixes_daily';

CREATE TABLE IF NOT EXISTS roll_ups
(
    day         Date COMMENT 'Day, UTC',
    source      LowCardinality(String) COMMENT 'What was rolled up: hosts_daily to talkers_daily, mixes to mixes_daily',
    fingerprint UInt64 COMMENT 'Of what there was to roll up then: another one now means that later data came',
    rows        UInt64 COMMENT 'Rows that were written',
    done_at     DateTime64(3, 'UTC') COMMENT 'When'
)
ENGINE = ReplacingMergeTree(done_at)
ORDER BY (day, source)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Days that are rolled up, and from what';
