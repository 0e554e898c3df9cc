-- Alerts that agents send, apart from those of the jobs: whoever holds a probe's credentials writes them, so they have a tier with an age and a share
-- of the budget, and push out nothing of another tier.
CREATE TABLE IF NOT EXISTS agent_alerts
(
    ts         DateTime('UTC') COMMENT 'When the condition began, to the second' CODEC(Delta, ZSTD(1)),
    id         String COMMENT 'Id of the alert: the probe''s name, a colon and the agent''s own id; the key on weir.alerts',
    reason     LowCardinality(String) COMMENT 'Cause in snake case, such as order_refused',
    probe      LowCardinality(String) COMMENT 'Name of the probe whose agent sent the alert',
    subject    String COMMENT 'What the alert concerns; empty for the agent itself',
    severity   Enum8('unspecified' = 0, 'info' = 1, 'warning' = 2, 'critical' = 3) COMMENT 'info: worth knowing. warning: somebody should look into it. critical: somebody must act now',
    opened_at  DateTime64(3, 'UTC') COMMENT 'When the condition began',
    updated_at DateTime64(3, 'UTC') COMMENT 'When the agent, or the job that closed the alert, wrote this version',
    closed_at  DateTime64(3, 'UTC') COMMENT 'When the condition ended; 1970-01-01 while it lasts',
    text       String COMMENT 'One sentence for a person, as the agent wrote it',
    values     Map(LowCardinality(String), UInt64) COMMENT 'Measured values by name; the names contain the units',
    version    UInt32 COMMENT 'Grows with each version of the alert; the row with the highest number counts'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMMDD(ts)
ORDER BY (ts, id)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Alerts of agents; read v_alerts, which shows the newest version of each';
