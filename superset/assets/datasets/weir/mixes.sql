{% set long = is_long(from_dttm, to_dttm) -%}
{% set scope = scope_of(filter_values) -%}
-- Totals and shares by time, in points of `bucket_s` seconds of whole five-minute windows: over all probes with each flow
-- counted once, or those of the chosen probe or customer. Ranges of more than a month read whole days, which are kept for ever.
SELECT
    toDateTime(intDiv(toUnixTimestamp(m.ts), bucket_s) * bucket_s, 'UTC') AS ts,
    {{ bucket_seconds(from_dttm, to_dttm, 300) }} AS bucket_s,
    m.probe AS probe,
    m.customer_name AS customer_name,
    m.dimension AS dimension,
    m.direction AS direction,
    multiIf(
        m.remainder, 'the rest',
        m.number = 0 AND m.dimension = 'customer', 'no customer',
        m.dimension = 'as' AND m.number != 0, if(m.name = '', concat('AS', toString(m.number)), concat(m.name, ' (AS', toString(m.number), ')')),
        m.name = '', toString(m.number), m.name) AS name,
    sum(m.octets) AS octets,
    sum(m.packets) AS packets,
    sum(m.flows) AS flows,
    sum(m.ipv4_octets) AS ipv4_octets,
    sum(m.ipv6_octets) AS ipv6_octets
FROM
(
    SELECT ts, scope, probe, customer, customer_name, dimension, direction, number, name, remainder, octets, packets, flows, ipv4_octets, ipv6_octets
    FROM v_mixes
    {% if long %}WHERE ts >= toDateTime(today(), 'UTC')
    UNION ALL
    SELECT toDateTime(day, 'UTC'), scope, probe, customer, customer_name, dimension, direction, number, name, remainder, octets, packets, flows, ipv4_octets, ipv6_octets
    FROM v_mixes_daily
    WHERE day < today(){% endif %}
) AS m
WHERE m.scope = '{{ scope }}'
  AND m.ts >= toDateTime({{ since(from_dttm) }}, 'UTC')
  AND m.ts < toDateTime(intDiv({{ until(to_dttm) }}, bucket_s) * bucket_s, 'UTC')
GROUP BY ts, bucket_s, probe, customer_name, dimension, direction, name
