-- Usual values: the median of the five-minute means by hour of day, separately for working days and weekends, and the
-- median absolute deviation from it. A window without a row for a label counts as 0.
CREATE OR REPLACE VIEW v_baseline
(
    scope Enum8('probe' = 1, 'all' = 2) COMMENT 'probe: the counts of one probe. all: the counts of all probes together',
    LIKE v_counter_means (probe, counter_set, label),
    hour UInt8 COMMENT 'Hour of the day, UTC',
    weekend Bool COMMENT 'Saturday and Sunday, UTC',
    windows UInt64 COMMENT 'Number of windows from which these values were computed: five-minute windows of the last 28 days with counters for at least half of their intervals',
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
COMMENT 'Usual value of each set and label, by hour of day and kind of day: median and median absolute deviation of the five-minute means of the last 28 days';
