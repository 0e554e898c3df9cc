-- The agents' counters by time, probe, counter set and label, in points of `bucket_s` seconds, whole ones only.
SELECT
    {{ point('c.ts') }} AS ts,
    {{ bucket_seconds(from_dttm, to_dttm) }} AS bucket_s,
    c.probe AS probe,
    c.counter_set AS counter_set,
    c.label AS label,
    -- Size classes begin with a number; leading blanks make them sort by it.
    if(c.counter_set = 'size', concat(repeat(' ', 4 - least(4, length(extract(c.label, '^[0-9]+')))), c.label), c.label) AS name,
    sum(c.octets) AS octets,
    sum(c.packets) AS packets
FROM v_counters AS c
WHERE {{ within_points('c.ts', from_dttm, to_dttm) }}
GROUP BY ts, bucket_s, probe, counter_set, label
