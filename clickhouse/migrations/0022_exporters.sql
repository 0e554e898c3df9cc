-- Flow records of other exporters: what came of each, what was lost on the way, and what is not known of it.

ALTER TABLE ledger
    ADD COLUMN IF NOT EXISTS exporter_records Map(LowCardinality(String), UInt64) COMMENT 'Collectors: records that came of each exporter, by protocol, address and observation domain' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS exporter_lost Map(LowCardinality(String), UInt64) COMMENT 'Collectors: what each exporter sent and did not come, by its sequence numbers, in the unit that the name ends with: records, datagrams or samples' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS exporter_without_sampling_rate Map(LowCardinality(String), UInt64) COMMENT 'Collectors: records of exporters that had not said their sampling rate; they are counted as they came' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS exporter_refused Map(LowCardinality(String), UInt64) COMMENT 'Collectors: what of an exporter could not be read, by the cause that the name ends with' CODEC(ZSTD(1));
