-- Hourly and daily rows in which a flow that several probes saw counts once: each row says whether its records count for
-- sums over several probes (duplicate). Which of a flow's records counts is known only when all probes have reported, so
-- the service `storage` fills the hourly tables from flows, minutes after each window (weir_schema/hourly.py); the
-- tables derived from them are filled by views, as before.

CREATE TABLE IF NOT EXISTS arrivals
(
    ts      DateTime('UTC') COMMENT 'Minute that the records are of' CODEC(Delta, ZSTD(1)),
    records SimpleAggregateFunction(sum, UInt64) COMMENT 'Records that were stored' CODEC(T64, ZSTD(1)),
    first   SimpleAggregateFunction(min, DateTime('UTC')) COMMENT 'When the first of them were stored' CODEC(ZSTD(1)),
    last    SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'When the last of them were stored' CODEC(ZSTD(1))
)
ENGINE = AggregatingMergeTree
ORDER BY ts
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Raw records that arrived, by minute of their intervals: an hour of which more came since is rolled up again. Removals and drops change nothing here';

CREATE MATERIALIZED VIEW IF NOT EXISTS fill_arrivals TO arrivals
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT toStartOfMinute(ts) AS ts, count() AS records, now('UTC') AS first, now('UTC') AS last
FROM flows
GROUP BY ts
COMMENT 'Fills arrivals from every block that is written to flows';

INSERT INTO arrivals (ts, records, first, last)
    SELECT toStartOfMinute(f.ts) AS minute, count(), now('UTC'), now('UTC') FROM flows AS f GROUP BY minute;

CREATE TABLE IF NOT EXISTS hours
(
    hour       DateTime('UTC') COMMENT 'Start of the hour',
    until      DateTime('UTC') COMMENT 'Its intervals before this are in the hourly rows',
    records    UInt64 COMMENT 'Records of these intervals that had arrived then; another number now means that more came',
    generation UInt16 COMMENT 'How often the raw records of its day went: rows of the hour with a lower number are final',
    state      Enum8('done' = 0, 'applying' = 1, 'unfinished' = 2, 'dropping' = 3, 'closed' = 4) COMMENT 'done: the rows are there. applying: the rows in hours_staged are being written. unfinished: a part of the hour is written. dropping: the raw records are being dropped. closed: the hourly rows went before the raw records; nothing is added until these are gone, too',
    token      String COMMENT 'Of the block in hours_staged: it is never written twice',
    noted_at   DateTime64(6, 'UTC') COMMENT 'When; the newest row of an hour holds'
)
ENGINE = ReplacingMergeTree(noted_at)
ORDER BY hour
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Hours that are rolled up from flows into the hourly tables';

ALTER TABLE flows_hourly
    ADD COLUMN IF NOT EXISTS duplicate Bool COMMENT 'Records of another probe count instead of these: sums over several probes leave the row out, sums of one probe do not',
    ADD COLUMN IF NOT EXISTS generation UInt16 COMMENT 'How often the raw records of the day had gone when the row was made',
    MODIFY ORDER BY (src_addr, dst_addr, protocol, port, ts, probe, folded, record_kind, src_prefix, dst_prefix, duplicate, generation);

ALTER TABLE flows_hourly_by_destination
    ADD COLUMN IF NOT EXISTS duplicate Bool COMMENT 'Records of another probe count instead of these: sums over several probes leave the row out, sums of one probe do not',
    ADD COLUMN IF NOT EXISTS generation UInt16 COMMENT 'How often the raw records of the day had gone when the row was made',
    MODIFY ORDER BY (dst_addr, src_addr, protocol, port, ts, probe, folded, record_kind, src_prefix, dst_prefix, duplicate, generation);

ALTER TABLE hosts_daily
    ADD COLUMN IF NOT EXISTS duplicate Bool COMMENT 'Records of another probe count instead of these: sums over several probes leave the row out, sums of one probe do not' AFTER prefix,
    MODIFY ORDER BY (addr, day, probe, network, prefix, duplicate);

DROP VIEW IF EXISTS fill_flows_hourly;

DROP VIEW IF EXISTS fill_flows_hourly_by_destination;

CREATE MATERIALIZED VIEW fill_flows_hourly_by_destination TO flows_hourly_by_destination
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT * FROM flows_hourly
COMMENT 'Fills flows_hourly_by_destination from every block that is written to flows_hourly';

DROP VIEW IF EXISTS fill_hosts_daily_sources;

CREATE MATERIALIZED VIEW fill_hosts_daily_sources TO hosts_daily
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

DROP VIEW IF EXISTS fill_hosts_daily_destinations;

CREATE MATERIALIZED VIEW fill_hosts_daily_destinations TO hosts_daily
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

-- What is the same for all records of a flow in the same 30 seconds, whichever of its ends they call the source: 128 bits, so
-- that no two flows share them.
CREATE OR REPLACE FUNCTION weir_flow AS (ts, record_kind, protocol, src_addr, src_port, dst_addr, dst_port) ->
    (
        cityHash64(src_addr, src_port) + cityHash64(dst_addr, dst_port) + cityHash64(intDiv(toUnixTimestamp(ts), 30), protocol, record_kind),
        xxHash64(src_addr, src_port) + xxHash64(dst_addr, dst_port)
    );

-- The lists over all probes are made again, where their days are still there.
ALTER TABLE roll_ups DELETE WHERE source = 'hosts_daily';
