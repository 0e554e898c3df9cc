-- One statement of each kind that migrations hold; sample.golden.sql has their cluster form.
CREATE TABLE IF NOT EXISTS flows
(
    ts    DateTime('UTC') COMMENT 'Start of the interval; and more' CODEC(Delta, ZSTD(1)),
    probe LowCardinality(String) COMMENT 'Name of the probe',
    addr  IPv6 COMMENT 'Address'
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(ts)
ORDER BY (ts, probe, addr)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Flow records';
CREATE TABLE IF NOT EXISTS prefixes
(
    id     UInt32 COMMENT 'Number',
    prefix String COMMENT 'The prefix'
)
ENGINE = ReplacingMergeTree(id)
ORDER BY id
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Prefixes';
ALTER TABLE flows
    ADD COLUMN IF NOT EXISTS port UInt16 COMMENT 'Port, by number' CODEC(T64, ZSTD(1)) AFTER addr,
    MODIFY ORDER BY (ts, probe, addr, port);
ALTER TABLE flows MODIFY COLUMN probe CODEC(ZSTD(1));
ALTER TABLE flows ADD INDEX IF NOT EXISTS addr addr TYPE minmax GRANULARITY 1;
CREATE TABLE IF NOT EXISTS hourly AS flows
ENGINE = AggregatingMergeTree
PARTITION BY toMonday(ts)
ORDER BY (addr, ts, probe)
SETTINGS non_replicated_deduplication_window = 10000;
CREATE MATERIALIZED VIEW IF NOT EXISTS fill_hourly TO hourly
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT toStartOfHour(f.ts) AS ts, probe, addr FROM flows AS f
COMMENT 'Fills hourly';
CREATE OR REPLACE FUNCTION weir_addr AS (addr) -> IPv6NumToString(addr);
CREATE OR REPLACE VIEW v_flows
(
    ts DateTime('UTC') COMMENT 'Start of the interval'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT ts FROM flows
COMMENT 'Flows to read';
CREATE DICTIONARY IF NOT EXISTS prefix_names (id UInt64, prefix String) PRIMARY KEY id
SOURCE(CLICKHOUSE(TABLE 'prefixes')) LAYOUT(HASHED()) LIFETIME(MIN 30 MAX 60);
DROP TABLE IF EXISTS anew SYNC;
CREATE TABLE anew AS flows
ENGINE = MergeTree
ORDER BY (probe, ts)
SETTINGS non_replicated_deduplication_window = 10000;
INSERT INTO anew SELECT * FROM flows;
EXCHANGE TABLES flows AND anew;
DROP TABLE anew SYNC;
CREATE DATABASE IF NOT EXISTS ntopng ENGINE = Atomic;
DROP VIEW IF EXISTS v_flows;
