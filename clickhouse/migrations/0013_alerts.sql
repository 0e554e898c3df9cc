-- Alerts on probes, opened, updated and closed by the job health; the same go to the topic weir.alerts.

CREATE TABLE IF NOT EXISTS alerts
(
    ts         DateTime('UTC') COMMENT 'When the condition began, to the second' CODEC(Delta, ZSTD(1)),
    id         String COMMENT 'The alert: a hash of reason, probe, subject and opened_at; the key on weir.alerts',
    reason     LowCardinality(String) COMMENT 'probe_silent, probe_late, probe_drops, clock_off, ledger_incomplete or lag_growing',
    probe      LowCardinality(String) COMMENT 'Name of the probe, empty for the nation',
    subject    String COMMENT 'Who or what on the probe; empty for the probe itself',
    severity   Enum8('unspecified' = 0, 'info' = 1, 'warning' = 2, 'critical' = 3) COMMENT 'info: worth knowing. warning: needs a look. critical: needs a person now',
    opened_at  DateTime64(3, 'UTC') COMMENT 'When the condition began',
    updated_at DateTime64(3, 'UTC') COMMENT 'When this version was written',
    closed_at  DateTime64(3, 'UTC') COMMENT 'When the condition ended; 1970-01-01 while it lasts',
    text       String COMMENT 'One sentence for a person',
    values     Map(LowCardinality(String), UInt64) COMMENT 'What was measured, by name; units in the names',
    version    UInt32 COMMENT 'How often the alert was written; the highest holds'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(ts)
ORDER BY (ts, id)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Alerts on probes; read v_alerts, which shows the newest version of each';
