-- Fixed counters and filter-set counters of the agents.

CREATE TABLE IF NOT EXISTS counters
(
    ts          DateTime('UTC') COMMENT 'Start of the interval' CODEC(Delta, ZSTD(1)),
    interval_ms UInt32 COMMENT 'Length of the interval in milliseconds',
    probe       LowCardinality(String) COMMENT 'Name of the probe',
    worker      UInt16 COMMENT 'Worker of the probe, from 0',
    counter_set LowCardinality(String) COMMENT 'Name of the set: cast, ip_version, protocol, size, drops, or a filter set of the configuration',
    label       LowCardinality(String) COMMENT 'Label within the set',
    packets     UInt64 COMMENT 'Packets in the interval' CODEC(T64, ZSTD(1)),
    octets      UInt64 COMMENT 'Layer-3 octets in the interval' CODEC(T64, ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(ts)
ORDER BY (counter_set, label, probe, worker, ts)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Packets and octets by counter set and label, for each probe, worker and interval';
