-- Counts of the agents beside flow records, their means over windows, and alerts on probes.

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

-- Means of these counters over windows of half a minute, five minutes, an hour and a day, and the baseline that they make.
-- The jobs write unfinished hours and days every five minutes and every hour; the highest version counts.
CREATE TABLE IF NOT EXISTS counter_means
(
    ts                      DateTime('UTC') COMMENT 'Start of the window' CODEC(Delta, ZSTD(1)),
    window_s                UInt32 COMMENT 'Length of the window in seconds: 30, 300, 3600 or 86400',
    scope                   Enum8('probe' = 1, 'all' = 2) COMMENT 'probe: the counts of one probe. all: the counts of all probes together',
    probe                   LowCardinality(String) COMMENT 'Name of the probe, empty for all',
    counter_set             LowCardinality(String) COMMENT 'Name of the set: cast, ip_version, protocol, size, drops, or a filter set of the configuration',
    label                   LowCardinality(String) COMMENT 'Label within the set. A label that counted nothing in a window has no row for that window',
    version                 UInt32 COMMENT 'Number of times that the window was written; the row with the highest number counts',
    packets                 UInt64 COMMENT 'Packets in the window' CODEC(T64, ZSTD(1)),
    octets                  UInt64 COMMENT 'Layer-3 octets in the window' CODEC(T64, ZSTD(1)),
    packets_per_second      Float64 COMMENT 'Mean over the seconds of the window for which counters arrived' CODEC(ZSTD(1)),
    octets_per_second       Float64 COMMENT 'Mean of the layer-3 octets over the seconds of the window for which counters arrived' CODEC(ZSTD(1)),
    peak_packets_per_second Float64 COMMENT 'Highest rate of an interval in the window or, over all probes, of a half minute' CODEC(ZSTD(1)),
    peak_octets_per_second  Float64 COMMENT 'Highest rate of layer-3 octets of an interval in the window or, over all probes, of a half minute' CODEC(ZSTD(1)),
    intervals_seen          UInt32 COMMENT 'Number of intervals for which counters arrived, for all workers together' CODEC(T64, ZSTD(1)),
    intervals_expected      UInt32 COMMENT 'Number of intervals that have passed in the window, for all workers of the probes that sent counters; more than intervals_seen if there is a gap' CODEC(T64, ZSTD(1)),
    probes_reported         UInt32 COMMENT 'Probes that had sent counters up to the window''s end when the row was written' CODEC(T64, ZSTD(1)),
    probes_expected         UInt32 COMMENT 'Probes that were enrolled' CODEC(T64, ZSTD(1))
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(ts)
ORDER BY (window_s, counter_set, label, scope, probe, ts)
TTL ts + INTERVAL 400 DAY
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Means of each set and label of counters over windows of 30 s, 5 min, 1 h and 1 d; read v_counter_means, which shows the newest version. Kept for 400 days';

-- Alerts on probes, opened, updated and closed by the job health; the same go to the topic weir.alerts.
CREATE TABLE IF NOT EXISTS alerts
(
    ts         DateTime('UTC') COMMENT 'When the condition began, to the second' CODEC(Delta, ZSTD(1)),
    id         String COMMENT 'Id of the alert: a hash of reason, probe, subject and opened_at; the key on weir.alerts',
    reason     LowCardinality(String) COMMENT 'probe_silent, probe_late, probe_drops, clock_off, ledger_incomplete, lag_growing, checkpoints_failing or jobs_clock_ahead',
    probe      LowCardinality(String) COMMENT 'Name of the probe, empty for the nation',
    subject    String COMMENT 'Part of the probe that the alert concerns; empty for the probe itself',
    severity   Enum8('unspecified' = 0, 'info' = 1, 'warning' = 2, 'critical' = 3) COMMENT 'info: worth knowing. warning: somebody should look into it. critical: somebody must act now',
    opened_at  DateTime64(3, 'UTC') COMMENT 'When the condition began',
    updated_at DateTime64(3, 'UTC') COMMENT 'When this version was written',
    closed_at  DateTime64(3, 'UTC') COMMENT 'When the condition ended; 1970-01-01 while it lasts',
    text       String COMMENT 'One sentence for a person',
    values     Map(LowCardinality(String), UInt64) COMMENT 'Measured values by name; the names contain the units',
    version    UInt32 COMMENT 'Number of times that the alert was written; the row with the highest number counts'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(ts)
ORDER BY (ts, id)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Alerts on probes; read v_alerts, which shows the newest version of each';
