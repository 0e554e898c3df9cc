CREATE TABLE IF NOT EXISTS flows_local ON CLUSTER 'weir'
(
    ts    DateTime('UTC') COMMENT 'Start of the interval; and more' CODEC(Delta, ZSTD(1)),
    probe LowCardinality(String) COMMENT 'Name of the probe',
    addr  IPv6 COMMENT 'Address'
)
ENGINE = ReplicatedMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}')
PARTITION BY toYYYYMMDD(ts)
ORDER BY (ts, probe, addr)
SETTINGS replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800
COMMENT 'Flow records';

CREATE TABLE IF NOT EXISTS flows ON CLUSTER 'weir' AS flows_local
ENGINE = Distributed('weir', 'weir', 'flows_local', cityHash64(probe));

CREATE TABLE IF NOT EXISTS prefixes_local ON CLUSTER 'weir'
(
    id     UInt32 COMMENT 'Number',
    prefix String COMMENT 'The prefix'
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}', id)
ORDER BY id
SETTINGS replicated_deduplication_window = 1000, replicated_deduplication_window_seconds = 604800
COMMENT 'Prefixes';

CREATE TABLE IF NOT EXISTS prefixes ON CLUSTER 'weir' AS prefixes_local
ENGINE = Distributed('weir', 'weir', 'prefixes_local', cityHash64(id));

ALTER TABLE flows_local ON CLUSTER 'weir'
    ADD COLUMN IF NOT EXISTS port UInt16 COMMENT 'Port, by number' CODEC(T64, ZSTD(1)) AFTER addr,
    MODIFY ORDER BY (ts, probe, addr, port);

ALTER TABLE flows ON CLUSTER 'weir'
    ADD COLUMN IF NOT EXISTS port UInt16 COMMENT 'Port, by number' AFTER addr;

ALTER TABLE flows_local ON CLUSTER 'weir'
    MODIFY COLUMN probe CODEC(ZSTD(1));

ALTER TABLE flows_local ON CLUSTER 'weir'
    ADD INDEX IF NOT EXISTS addr addr TYPE minmax GRANULARITY 1;

CREATE TABLE IF NOT EXISTS hourly_local ON CLUSTER 'weir' AS flows_local
ENGINE = ReplicatedAggregatingMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}')
PARTITION BY toMonday(ts)
ORDER BY (addr, ts, probe)
SETTINGS replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE TABLE IF NOT EXISTS hourly ON CLUSTER 'weir' AS hourly_local
ENGINE = Distributed('weir', 'weir', 'hourly_local', cityHash64(probe));

CREATE MATERIALIZED VIEW IF NOT EXISTS fill_hourly ON CLUSTER 'weir' TO hourly_local
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT toStartOfHour(f.ts) AS ts, probe, addr FROM flows_local AS f
COMMENT 'Fills hourly';

CREATE OR REPLACE FUNCTION weir_addr ON CLUSTER 'weir' AS (addr) -> IPv6NumToString(addr);

CREATE OR REPLACE VIEW v_flows ON CLUSTER 'weir'
(
    ts DateTime('UTC') COMMENT 'Start of the interval'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT ts FROM flows
COMMENT 'Flows to read';

CREATE DICTIONARY IF NOT EXISTS prefix_names ON CLUSTER 'weir' (id UInt64, prefix String) PRIMARY KEY id
SOURCE(CLICKHOUSE(TABLE 'prefixes')) LAYOUT(HASHED()) LIFETIME(MIN 30 MAX 60);

DROP TABLE IF EXISTS anew ON CLUSTER 'weir' SYNC;

DROP TABLE IF EXISTS anew_local ON CLUSTER 'weir' SYNC;

CREATE TABLE anew_local ON CLUSTER 'weir' AS flows_local
ENGINE = ReplicatedMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}')
ORDER BY (probe, ts)
SETTINGS replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE TABLE anew ON CLUSTER 'weir' AS anew_local
ENGINE = Distributed('weir', 'weir', 'anew_local', cityHash64(probe));

INSERT INTO anew SELECT * FROM flows;

EXCHANGE TABLES flows_local AND anew_local ON CLUSTER 'weir';

CREATE OR REPLACE TABLE flows ON CLUSTER 'weir' AS flows_local
ENGINE = Distributed('weir', 'weir', 'flows_local', cityHash64(probe));

CREATE OR REPLACE TABLE anew ON CLUSTER 'weir' AS anew_local
ENGINE = Distributed('weir', 'weir', 'anew_local', cityHash64(probe));

DROP TABLE anew ON CLUSTER 'weir' SYNC;

DROP TABLE anew_local ON CLUSTER 'weir' SYNC;

CREATE DATABASE IF NOT EXISTS ntopng ON CLUSTER 'weir' ENGINE = Atomic;

DROP VIEW IF EXISTS v_flows ON CLUSTER 'weir';
