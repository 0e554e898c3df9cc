-- Means of what agents count, over windows of half a minute, five minutes, an hour and a day, and the baseline that they
-- make. Unfinished hours and days are written every five minutes and every hour; the highest version holds.

CREATE TABLE IF NOT EXISTS counter_means
(
    ts                      DateTime('UTC') COMMENT 'Start of the window' CODEC(Delta, ZSTD(1)),
    window_s                UInt32 COMMENT 'Length of the window in seconds: 30, 300, 3600 or 86400',
    scope                   Enum8('probe' = 1, 'all' = 2) COMMENT 'probe: what one probe counted. all: what all probes counted together',
    probe                   LowCardinality(String) COMMENT 'Name of the probe, empty for all',
    counter_set             LowCardinality(String) COMMENT 'Name of the set: cast, ip_version, protocol, size, drops, or a filter set of the configuration',
    label                   LowCardinality(String) COMMENT 'Label within the set. One that counted nothing in a window has no row in it',
    version                 UInt32 COMMENT 'How often the window was written; the highest holds',
    packets                 UInt64 COMMENT 'Packets in the window' CODEC(T64, ZSTD(1)),
    octets                  UInt64 COMMENT 'Layer-3 octets in the window' CODEC(T64, ZSTD(1)),
    packets_per_second      Float64 COMMENT 'Mean over the seconds of the window of which counters came' CODEC(ZSTD(1)),
    octets_per_second       Float64 COMMENT 'Mean of the layer-3 octets, likewise' CODEC(ZSTD(1)),
    peak_packets_per_second Float64 COMMENT 'Highest rate of one interval in the window; over all probes: of one half minute' CODEC(ZSTD(1)),
    peak_octets_per_second  Float64 COMMENT 'Highest rate of layer-3 octets, likewise' CODEC(ZSTD(1)),
    intervals_seen          UInt32 COMMENT 'Intervals of workers of which counters came' CODEC(T64, ZSTD(1)),
    intervals_expected      UInt32 COMMENT 'Intervals of workers that have passed in the window, of the probes that counted in it: more than were seen where there is a gap' CODEC(T64, ZSTD(1)),
    probes_reported         UInt32 COMMENT 'Probes that had counted to the window''s end when the row was written' CODEC(T64, ZSTD(1)),
    probes_expected         UInt32 COMMENT 'Probes that were enrolled' CODEC(T64, ZSTD(1))
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(ts)
ORDER BY (window_s, counter_set, label, scope, probe, ts)
TTL ts + INTERVAL 400 DAY
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Means of each set and label of counters over windows of 30 s, 5 min, 1 h and 1 d; read v_counter_means, which shows the newest version. Kept for 400 days';
