-- Traffic between sites, kept for ever: hourly rows name the prefixes of both ends, but are dropped after some years.
-- If this was interrupted, it begins anew.
DROP VIEW IF EXISTS fill_sites_daily;
DROP TABLE IF EXISTS sites_daily;
CREATE TABLE IF NOT EXISTS sites_daily
(
    day         Date COMMENT 'Day, UTC' CODEC(Delta, ZSTD(1)),
    probe       LowCardinality(String) COMMENT 'Name of the probe that saw the traffic' CODEC(ZSTD(1)),
    src_prefix  UInt32 COMMENT 'Longest declared prefix that the source was in, by its id in the table prefixes; 0 none' CODEC(ZSTD(1)),
    dst_prefix  UInt32 COMMENT 'Longest declared prefix that the destination was in, by its id in the table prefixes; 0 none' CODEC(ZSTD(1)),
    duplicate   Bool COMMENT 'True if records of another probe count instead: sums over several probes leave the row out, sums of one probe include it',
    flows       SimpleAggregateFunction(sum, UInt64) COMMENT 'Flows that began on the day' CODEC(T64, ZSTD(1)),
    fwd_packets SimpleAggregateFunction(sum, UInt64) COMMENT 'Packets from source to destination' CODEC(T64, ZSTD(1)),
    fwd_octets  SimpleAggregateFunction(sum, UInt64) COMMENT 'Layer-3 octets from source to destination' CODEC(T64, ZSTD(1)),
    rev_packets SimpleAggregateFunction(sum, UInt64) COMMENT 'Packets from destination to source' CODEC(T64, ZSTD(1)),
    rev_octets  SimpleAggregateFunction(sum, UInt64) COMMENT 'Layer-3 octets from destination to source' CODEC(T64, ZSTD(1))
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(day)
ORDER BY (day, src_prefix, dst_prefix, probe, duplicate)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Traffic between each two declared prefixes on each day, as each probe saw it; read v_sites';

-- The days before this migration. Nothing writes hourly rows meanwhile: `weir up` applies migrations before it starts the jobs.
INSERT INTO sites_daily (day, probe, src_prefix, dst_prefix, duplicate, flows, fwd_packets, fwd_octets, rev_packets, rev_octets)
SELECT
    toDate(ts) AS day, probe, src_prefix, dst_prefix, duplicate,
    sum(h.flows), sum(h.fwd_packets), sum(h.fwd_octets), sum(h.rev_packets), sum(h.rev_octets)
FROM flows_hourly AS h
GROUP BY day, probe, src_prefix, dst_prefix, duplicate;

CREATE MATERIALIZED VIEW IF NOT EXISTS fill_sites_daily TO sites_daily
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    toDate(ts) AS day, probe, src_prefix, dst_prefix, duplicate, sum(h.flows) AS flows,
    sum(h.fwd_packets) AS fwd_packets, sum(h.fwd_octets) AS fwd_octets, sum(h.rev_packets) AS rev_packets, sum(h.rev_octets) AS rev_octets
FROM flows_hourly AS h
GROUP BY day, probe, src_prefix, dst_prefix, duplicate
COMMENT 'Fills sites_daily from every block that is written to flows_hourly';

-- Whether an address in the stored form is in '192.0.2.0/24', '2001:db8::/32' or is that one address. Tables and views that are ordered by the
-- address read only its rows.
CREATE OR REPLACE FUNCTION weir_in AS (addr, network) -> addr BETWEEN weir_first(network) AND weir_last(network);
