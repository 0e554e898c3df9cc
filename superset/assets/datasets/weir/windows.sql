{% set scope = scope_of(filter_values) -%}
-- Traffic of each window of 30 seconds, in points of `bucket_s` seconds, whole ones only: over all probes with each flow counted once, or of the
-- chosen probe or customer only.
SELECT
    {{ point('w.ts') }} AS ts, {{ bucket_seconds(from_dttm, to_dttm, 30) }} AS bucket_s, w.probe AS probe, w.customer AS customer_name,
    sum(w.window_octets) AS octets, sum(w.window_packets) AS packets, sum(w.window_flows) AS flows,
    sum(w.duplicate_octets) AS duplicate_octets, count() AS windows
FROM v_top_flows AS w
WHERE w.scope = '{{ scope }}' AND w.list = 'ip_octets' AND w.rank = 1 AND {{ within_points('w.ts', from_dttm, to_dttm) }}
GROUP BY ts, bucket_s, probe, customer_name
