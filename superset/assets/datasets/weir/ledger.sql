-- The ledger by time and probe, in points of `bucket_s` seconds, whole ones only. Nobody knows which packets of an interval without a closing record
-- are missing: it counts as `intervals_unknown`. Rows stored twice have a column of their own, so that they cannot hide losses elsewhere.
SELECT
    {{ point('l.ts') }} AS ts,
    {{ bucket_seconds(from_dttm, to_dttm) }} AS bucket_s,
    l.probe AS probe,
    count() AS intervals,
    countIf(l.state IN ('closing_missing', 'missing')) AS intervals_unknown,
    countIf(l.state = 'closed') AS intervals_closed,
    sum(l.on_interface_packets) + sum(l.gap_packets) AS wire,
    sum(l.captured_packets) AS captured,
    sum(l.captured_octets) AS captured_octets,
    sum(l.dropped['kernel']) AS dropped_kernel,
    sum(l.dropped['ring']) AS dropped_ring,
    sum(l.dropped['interface']) AS dropped_interface,
    sum(l.dropped_packets) - dropped_kernel - dropped_ring - dropped_interface AS dropped_elsewhere,
    sum(l.gap_packets) AS unwatched,
    sum(l.not_metered_packets) AS not_metered,
    sum(l.stored_packets) AS stored,
    sum(greatest(l.lost_packets, 0)) AS lost,
    sum(greatest(-l.lost_packets, 0)) AS doubled,
    stored - doubled + not_metered AS accounted,
    sum(l.dropped_packets) + unwatched + lost AS missing,
    sum(l.stored_records) AS records,
    maxIf(dateDiff('millisecond', toDateTime64(l.ts, 3, 'UTC'), l.updated_at) - toInt64(l.interval_ms), l.state = 'closed' AND l.version = 1 AND NOT startsWith(l.source, 'file:')) / 1000 AS lag,
    max(nullIf(l.rss_octets, 0)) AS memory,
    max(l.cpu_permille) AS cpu
FROM v_ledger AS l
WHERE {{ within_points('l.ts', from_dttm, to_dttm) }}
GROUP BY ts, bucket_s, probe
