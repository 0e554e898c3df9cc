-- What collectors published beside flow records, as their closing records count it.

ALTER TABLE ledger
    ADD COLUMN IF NOT EXISTS published_nat_events UInt64 COMMENT 'Events of translators and firewalls in the published batches, as the collector reports them; 0 from a collector older than this column' CODEC(T64, ZSTD(1)) AFTER exporter_reports,
    ADD COLUMN IF NOT EXISTS published_interface_counters UInt64 COMMENT 'Samples of interface counters in the published batches, likewise' CODEC(T64, ZSTD(1)) AFTER published_nat_events,
    ADD COLUMN IF NOT EXISTS published_names UInt64 COMMENT 'Names of interfaces and VRFs in the published batches, likewise' CODEC(T64, ZSTD(1)) AFTER published_interface_counters;
