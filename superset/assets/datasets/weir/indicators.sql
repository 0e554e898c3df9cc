{% set scope = scope_of(filter_values) -%}
-- Worm counts, scanners, UDP work weight and ICMP errors by time: the highest value of any window in each point of `bucket_s` seconds.
SELECT
    {{ point('i.ts') }} AS ts, {{ bucket_seconds(from_dttm, to_dttm, 30) }} AS bucket_s, i.probe AS probe, i.customer AS customer_name,
    max(i.hosts) AS hosts, max(i.report_hosts) AS report_hosts, max(i.worms_us) AS worms_us, max(i.worms_them) AS worms_them,
    max(i.scanners) AS scanners, max(i.failed) AS failed, max(i.udp_work_weight) AS udp_work_weight,
    max(i.icmp_errors) AS icmp_errors, max(i.syn_sent) AS syn_sent
FROM v_indicators AS i
WHERE i.scope = '{{ scope }}' AND {{ within_points('i.ts', from_dttm, to_dttm) }}
GROUP BY ts, bucket_s, probe, customer_name
