-- What the service `storage` notes about the store: when a partition appeared, since merges and removals make its parts
-- new, and from which windows a daily list was made, which is not made again from fewer.

CREATE TABLE IF NOT EXISTS partitions_seen
(
    name       LowCardinality(String) COMMENT 'Name of the table',
    partition  String COMMENT 'Name of its partition',
    first_seen SimpleAggregateFunction(min, DateTime('UTC')) COMMENT 'When its oldest part was written, as far as it was known when the partition was first seen'
)
ENGINE = AggregatingMergeTree
ORDER BY (name, partition)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'When each partition appeared: rows of the future, or of an old capture, are kept from then on, however often they are rewritten';

ALTER TABLE roll_ups
    ADD COLUMN IF NOT EXISTS windows Array(Tuple(list UInt64, starts Array(UInt32))) COMMENT 'Windows that were rolled up: by list (a hash of scope, probe, customer and length), their starts, seconds' CODEC(ZSTD(1));
