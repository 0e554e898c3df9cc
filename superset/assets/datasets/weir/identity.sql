{% set host = chosen_host(filter_values) -%}
-- Identity of an address: network, country, customer, and when it was seen in the time range.
WITH toIPv6OrNull(ifNull({{ host }}, '')) AS asked
SELECT
    {{ last_second(to_dttm) }} AS ts,
    ifNull({{ host }}, 'none') AS host,
    argMax(if(r.src_addr = asked, (r.src_as, r.src_as_name, r.src_country, r.src_customer), (r.dst_as, r.dst_as_name, r.dst_country, r.dst_customer)), r.ts) AS known,
    known.1 AS as_number,
    multiIf(isNull(asked) AND {{ host }} != '', 'not an address', count() = 0, 'not seen in this time', known.1 = 0, 'unknown', concat(known.2, ' (AS', toString(known.1), ')')) AS as_label,
    if(known.3 = '', 'unknown', known.3) AS country,
    if(known.4 = '', 'none', known.4) AS customer,
    arrayStringConcat(arraySort(groupUniqArray(toString(r.probe))), ', ') AS probes,
    if(count() = 0, '', formatDateTime(min(r.first_seen), '%Y-%m-%d %H:%i:%S', 'UTC')) AS first_seen,
    if(count() = 0, '', formatDateTime(max(r.last_seen), '%Y-%m-%d %H:%i:%S', 'UTC')) AS last_seen,
    uniqExact(if(r.src_addr = asked, r.dst_addr, r.src_addr)) AS peers,
    count() AS records
FROM v_records AS r
WHERE (r.src_addr = asked OR r.dst_addr = asked)
  AND {{ within('r.ts', from_dttm, to_dttm) }}
