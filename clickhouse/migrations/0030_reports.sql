-- What batches bring beside flow records, in the ledger: as the jobs received it, and as it is stored.

ALTER TABLE ledger
    ADD COLUMN IF NOT EXISTS exporter_reports Map(LowCardinality(String), UInt64) COMMENT 'Collectors: what came of each exporter beside flow records, by the table that the name ends with: nat_events, interface_counters, names' CODEC(ZSTD(1)) AFTER exporter_sampling,
    ADD COLUMN IF NOT EXISTS received_nat_events UInt64 COMMENT 'Events of translators and firewalls in the batches that came' CODEC(T64, ZSTD(1)) AFTER exporter_reports,
    ADD COLUMN IF NOT EXISTS received_interface_counters UInt64 COMMENT 'Samples of interface counters in the batches that came' CODEC(T64, ZSTD(1)) AFTER received_nat_events,
    ADD COLUMN IF NOT EXISTS received_names UInt64 COMMENT 'Names of interfaces and VRFs in the batches that came' CODEC(T64, ZSTD(1)) AFTER received_interface_counters;

-- What the ledger calls stored, as in flows.
ALTER TABLE interface_counters
    ADD PROJECTION IF NOT EXISTS stored (SELECT probe, worker, ts, count(), groupUniqArray((epoch, sequence)) GROUP BY probe, worker, ts),
    MODIFY SETTING lightweight_mutation_projection_mode = 'rebuild';
