-- Traffic by time, probe and protocol. A point is `bucket_s` seconds long, chosen by the length of the time range, and
-- only whole points are given. The columns of the view are named with the alias: a bare `ts` would mean the result's.
SELECT
    toDateTime(intDiv(toUnixTimestamp(f.ts), bucket_s) * bucket_s, 'UTC') AS ts,
    {{ bucket_seconds(from_dttm, to_dttm) }} AS bucket_s,
    f.probe AS probe,
    f.protocol_name AS protocol,
    sum(f.octets) AS octets,
    sum(f.packets) AS packets,
    sumIf(f.interval_ms, f.record_kind = 'flow') / 1000 AS flow_seconds
FROM v_flows AS f
WHERE f.ts >= toDateTime({{ since(from_dttm) }}, 'UTC')
  AND f.ts < toDateTime(intDiv({{ until(to_dttm) }}, bucket_s) * bucket_s, 'UTC')
GROUP BY ts, bucket_s, probe, protocol
