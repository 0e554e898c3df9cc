CREATE OR REPLACE VIEW v_counter_means
(
    ts DateTime('UTC') COMMENT 'Start of the window',
    window String COMMENT 'Length of the window: 30 s, 5 min, 1 h or 1 d',
    window_s UInt32 COMMENT 'Length of the window in seconds',
    LIKE counter_means (scope, probe),
    counter_set LowCardinality(String) COMMENT 'Name of the set',
    label LowCardinality(String) COMMENT 'Label within the set',
    version UInt32 COMMENT 'Number of times that the window was written; the view shows the newest version',
    LIKE counter_means (packets, octets, packets_per_second, octets_per_second, peak_packets_per_second,
        peak_octets_per_second, intervals_seen),
    intervals_expected UInt32 COMMENT 'Number of intervals that have passed in the window, for all workers together',
    coverage Float64 COMMENT 'Fraction of these intervals for which counters arrived, 0 to 1',
    LIKE counter_means (probes_reported, probes_expected)
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
