{% set scope = 'probe' if filter_values('probe') else 'all' -%}
-- Remote logins, web, mail and peer-to-peer, from labels of the shipped filter sets: the means of each label, added up.
SELECT ts, {{ bucket_seconds(from_dttm, to_dttm, 300) }} AS bucket_s, probe, service, sum(packets) AS packets_per_second, sum(octets) AS octets_per_second
FROM
(
    SELECT
        {{ point('m.ts') }} AS ts,
        {{ bucket_seconds(from_dttm, to_dttm, 300) }} AS bucket_s,
        toString(m.probe) AS probe, toString(m.label) AS label,
        multiIf(
            m.counter_set = 'mail', 'mail',
            m.counter_set = 'p2p', 'P2P',
            m.counter_set != 'ports', '',
            m.label = 'ssh', 'ssh',
            m.label IN ('web', 'https', 'quic'), 'web',
            '') AS service,
        avg(m.packets_per_second) AS packets, avg(m.octets_per_second) AS octets
    FROM v_counter_means AS m
    WHERE m.window_s = 300 AND m.scope = '{{ scope }}' AND m.counter_set IN ('ports', 'mail', 'p2p')
      AND {{ within_points('m.ts', from_dttm, to_dttm) }}
    GROUP BY ts, bucket_s, probe, label, service
)
WHERE service != ''
GROUP BY ts, bucket_s, probe, service
