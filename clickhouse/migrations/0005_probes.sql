-- The probes that are enrolled. `weir probe add` writes here and makes the probe's topics.

CREATE TABLE IF NOT EXISTS probes
(
    probe       LowCardinality(String) COMMENT 'Name of the probe',
    workers     UInt16 COMMENT 'Workers the probe may have: partitions of its topics',
    interval_ms UInt32 COMMENT 'Length of its intervals in milliseconds',
    site        String COMMENT 'Where it stands',
    enrolled_at DateTime('UTC') COMMENT 'When it was enrolled',
    updated_at  DateTime64(3, 'UTC') COMMENT 'When this row was written; the newest holds'
)
ENGINE = ReplacingMergeTree(updated_at)
ORDER BY probe
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Enrolled probes';
