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

CREATE OR REPLACE VIEW v_counter_means
(
    ts DateTime('UTC') COMMENT 'Start of the window',
    window String COMMENT 'Length of the window: 30 s, 5 min, 1 h or 1 d',
    window_s UInt32 COMMENT 'Length of the window in seconds',
    scope Enum8('probe' = 1, 'all' = 2) COMMENT 'probe: what one probe counted. all: what all probes counted together',
    probe LowCardinality(String) COMMENT 'Name of the probe, empty for all',
    counter_set LowCardinality(String) COMMENT 'Name of the set',
    label LowCardinality(String) COMMENT 'Label within the set',
    version UInt32 COMMENT 'How often the window was written; the newest is shown',
    packets UInt64 COMMENT 'Packets in the window',
    octets UInt64 COMMENT 'Layer-3 octets in the window',
    packets_per_second Float64 COMMENT 'Mean over the seconds of the window of which counters came',
    octets_per_second Float64 COMMENT 'Mean of the layer-3 octets, likewise',
    peak_packets_per_second Float64 COMMENT 'Highest rate of one interval in the window; over all probes: of one half minute',
    peak_octets_per_second Float64 COMMENT 'Highest rate of layer-3 octets, likewise',
    intervals_seen UInt32 COMMENT 'Intervals of workers of which counters came',
    intervals_expected UInt32 COMMENT 'Intervals of workers that have passed in the window',
    coverage Float64 COMMENT 'Part of the intervals that have passed of which counters came, 0 to 1',
    probes_reported UInt32 COMMENT 'Probes that had counted to the window''s end when the row was written',
    probes_expected UInt32 COMMENT 'Probes that were enrolled'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    ts, transform(window_s, [30, 300, 3600, 86400], ['30 s', '5 min', '1 h', '1 d'], concat(toString(window_s), ' s')) AS window,
    window_s, scope, probe, counter_set, label, version, packets, octets,
    packets_per_second, octets_per_second, peak_packets_per_second, peak_octets_per_second,
    intervals_seen, intervals_expected, intervals_seen / greatest(intervals_expected, 1) AS coverage,
    probes_reported, probes_expected
FROM counter_means FINAL
COMMENT 'Means of each set and label of counters over windows of 30 s, 5 min, 1 h and 1 d: the newest version of each';

-- What is usual: the median of the five-minute means by hour of day, apart for working days and weekends, and the median
-- absolute deviation from it. Windows in which a label has no row count as 0.
CREATE OR REPLACE VIEW v_baseline
(
    scope Enum8('probe' = 1, 'all' = 2) COMMENT 'probe: what one probe counts. all: what all probes count together',
    probe LowCardinality(String) COMMENT 'Name of the probe, empty for all',
    counter_set LowCardinality(String) COMMENT 'Name of the set',
    label LowCardinality(String) COMMENT 'Label within the set',
    hour UInt8 COMMENT 'Hour of the day, UTC',
    weekend Bool COMMENT 'Saturday and Sunday, UTC',
    windows UInt64 COMMENT 'Five-minute windows of the last 28 days that this is made of: those of which at least half of the intervals came',
    packets_per_second Float64 COMMENT 'Median of their means',
    packets_per_second_mad Float64 COMMENT 'Median absolute deviation from that median',
    octets_per_second Float64 COMMENT 'Median of their means of layer-3 octets',
    octets_per_second_mad Float64 COMMENT 'Median absolute deviation from that median'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS
WITH means AS
(
    SELECT scope, probe, counter_set, label, ts, toHour(ts) AS hour, toBool(toDayOfWeek(ts) > 5) AS weekend, packets_per_second, octets_per_second
    FROM counter_means FINAL
    WHERE window_s = 300 AND ts >= now() - INTERVAL 28 DAY AND intervals_seen * 2 >= intervals_expected
)
SELECT
    scope, probe, counter_set, label, hour, weekend, windows,
    arrayReduce('quantileExactInclusive(0.5)', p) AS packets_per_second,
    arrayReduce('quantileExactInclusive(0.5)', arrayMap(x -> abs(x - packets_per_second), p)) AS packets_per_second_mad,
    arrayReduce('quantileExactInclusive(0.5)', o) AS octets_per_second,
    arrayReduce('quantileExactInclusive(0.5)', arrayMap(x -> abs(x - octets_per_second), o)) AS octets_per_second_mad
FROM
(
    SELECT
        l.scope AS scope, l.probe AS probe, l.counter_set AS counter_set, l.label AS label, l.hour AS hour, l.weekend AS weekend,
        w.windows AS windows,
        arrayConcat(l.p, arrayWithConstant(toInt64(w.windows) - length(l.p), 0.)) AS p,
        arrayConcat(l.o, arrayWithConstant(toInt64(w.windows) - length(l.o), 0.)) AS o
    FROM
    (
        SELECT scope, probe, counter_set, label, hour, weekend, groupArray(packets_per_second) AS p, groupArray(octets_per_second) AS o
        FROM means
        GROUP BY scope, probe, counter_set, label, hour, weekend
    ) AS l
    INNER JOIN (SELECT scope, probe, hour, weekend, uniqExact(ts) AS windows FROM means GROUP BY scope, probe, hour, weekend) AS w
    ON w.scope = l.scope AND w.probe = l.probe AND w.hour = l.hour AND w.weekend = l.weekend
)
COMMENT 'What is usual for each set and label, by hour of day and kind of day: median and median absolute deviation of the five-minute means of the last 28 days';
