{% set host = chosen_host(filter_values) -%}
-- Who an address is: network, country, customer, and when it was seen in the time range.
WITH toIPv6OrDefault(ifNull({{ host }}, '')) AS asked
SELECT
    toDateTime({{ until(to_dttm) }} - 1, 'UTC') AS ts,
    ifNull({{ host }}, 'none') AS host,
    max(if(r.src_addr = asked, r.src_as, r.dst_as)) AS as_number,
    multiIf(count() = 0, 'not seen in this time', as_number = 0, 'unknown',
        concat(max(if(r.src_addr = asked, r.src_as_name, r.dst_as_name)), ' (AS', toString(as_number), ')')) AS as_label,
    if(max(if(r.src_addr = asked, r.src_country, r.dst_country)) = '', 'unknown', max(if(r.src_addr = asked, r.src_country, r.dst_country))) AS country,
    if(max(if(r.src_addr = asked, r.src_customer, r.dst_customer)) = '', 'none', max(if(r.src_addr = asked, r.src_customer, r.dst_customer))) AS customer,
    arrayStringConcat(arraySort(groupUniqArray(toString(r.probe))), ', ') AS probes,
    if(count() = 0, '', formatDateTime(min(r.first_seen), '%Y-%m-%d %H:%i:%S', 'UTC')) AS first_seen,
    if(count() = 0, '', formatDateTime(max(r.last_seen), '%Y-%m-%d %H:%i:%S', 'UTC')) AS last_seen,
    uniqExact(if(r.src_addr = asked, r.dst_addr, r.src_addr)) AS peers,
    count() AS records
FROM v_records AS r
WHERE (r.src_addr = asked OR r.dst_addr = asked)
  AND r.ts >= toDateTime({{ since(from_dttm) }}, 'UTC')
  AND r.ts < toDateTime({{ until(to_dttm) }}, 'UTC')
