-- Sampling rates of exporters that are not settled, and how a record of one is told from another.

ALTER TABLE ledger
    ADD COLUMN IF NOT EXISTS exporter_sampling Map(LowCardinality(String), UInt64) COMMENT 'Collectors: records of exporters whose sampling rate is not settled, by the state that the name ends with: expected (announced, and not yet received), not_understood (announced in a form that gives no rate)' CODEC(ZSTD(1)) AFTER exporter_refused;

ALTER TABLE flows
    MODIFY COLUMN sampling_rate UInt32 COMMENT 'One packet in this many was looked at; counts are scaled already. 1: every packet. 0: every packet, where the agent captured it itself (exporter_addr is ::); the exporter gave no rate, and the counts are as exported, where it is set' CODEC(ZSTD(1));
