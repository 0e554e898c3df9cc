{% set scope = scope_of(filter_values) -%}
{% set list, words = flow_list(filter_values) -%}
-- The chosen list of the newest window of the time range: over all probes, or of each chosen probe or customer.
SELECT
    t.ts AS ts,
    t.window_s AS window_s,
    t.probe AS probe,
    if(t.probe = '', 'all probes', t.probe) AS seen_by,
    t.customer AS customer_name,
    {{ words }} AS flow_list,
    t.rank AS rank,
    t.protocol_name AS protocol,
    t.src AS src,
    {{ host_link('t.src') }} AS src_link,
    t.src_port AS src_port,
    t.dst AS dst,
    {{ host_link('t.dst') }} AS dst_link,
    t.dst_port AS dst_port,
    t.octets AS octets,
    t.packets AS packets,
    t.window_octets AS window_octets
FROM v_top_flows AS t
WHERE t.scope = '{{ scope }}'
  AND t.list = {{ list }}
  AND (t.probe, t.customer, t.ts) IN
  (
      SELECT w.probe, w.customer, max(w.ts)
      FROM v_top_flows AS w
      WHERE w.scope = '{{ scope }}'
        AND w.list = {{ list }}
        AND w.rank = 1
        AND {{ within('w.ts', from_dttm, to_dttm) }}
      GROUP BY w.probe, w.customer
  )
  AND {{ within('t.ts', from_dttm, to_dttm) }}
