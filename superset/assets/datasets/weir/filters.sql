{% set scope = 'probe' if filter_values('probe') else 'all' -%}
-- One filter set by time: each label as counted, and its usual value at that hour. If none is chosen, the first set
-- other than the fixed sets of every agent.
WITH
    {% if filter_values('counter_set') %}{{ chosen(filter_values, 'counter_set') }}
    {% else %}(SELECT min(n.counter_set) FROM v_counter_means AS n WHERE n.window_s = 300 AND n.scope = 'all' AND n.counter_set NOT IN ('cast', 'ip_version', 'protocol', 'size', 'drops', 'fragments', 'checksums', 'applications', 'exporters')
        AND {{ within('n.ts', from_dttm, to_dttm) }})
    {% endif %} AS shown,
counted AS
(
    SELECT
        {{ point('m.ts') }} AS point,
        {{ bucket_seconds(from_dttm, to_dttm, 300) }} AS bucket_s,
        toString(m.probe) AS probe, toString(m.label) AS label,
        avg(m.packets_per_second) AS packets_per_second, avg(m.octets_per_second) AS octets_per_second
    FROM v_counter_means AS m
    WHERE m.window_s = 300 AND m.counter_set = shown AND m.scope = '{{ scope }}'
      AND {{ within_points('m.ts', from_dttm, to_dttm) }}
    GROUP BY point, bucket_s, probe, label
),
usual AS
(
    SELECT toString(b.probe) AS probe, toString(b.label) AS label, b.hour AS hour, b.weekend AS weekend, b.packets_per_second AS packets_per_second, b.octets_per_second AS octets_per_second
    FROM v_baseline AS b
    WHERE b.scope = '{{ scope }}' AND b.counter_set = shown
)
SELECT c.point AS ts, c.probe AS probe, shown AS counter_set, c.label AS label, 'counted' AS kind, c.packets_per_second AS packets_per_second, c.octets_per_second AS octets_per_second
FROM counted AS c
UNION ALL
SELECT c.point, c.probe, shown, c.label, 'usual', u.packets_per_second, u.octets_per_second
FROM counted AS c
INNER JOIN usual AS u ON u.probe = c.probe AND u.label = c.label AND u.hour = toHour(c.point) AND u.weekend = (toDayOfWeek(c.point) > 5)
