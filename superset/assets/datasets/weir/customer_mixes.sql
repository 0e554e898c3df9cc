{% set long = is_long(from_dttm, to_dttm) -%}
-- Totals and shares of each customer by time, in points of `bucket_s` seconds of whole five-minute windows. Row-level
-- security of a customer's user filters on `customer_id`. Ranges of more than a month read whole days.
SELECT
    toDateTime(intDiv(toUnixTimestamp(m.ts), bucket_s) * bucket_s, 'UTC') AS ts,
    {{ bucket_seconds(from_dttm, to_dttm, 300) }} AS bucket_s,
    m.customer AS customer_id,
    m.customer_name AS customer_name,
    m.dimension AS dimension,
    m.direction AS direction,
    multiIf(
        m.remainder, 'the rest',
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
WHERE m.scope = 'customer'
  AND m.ts >= toDateTime({{ since(from_dttm) }}, 'UTC')
  AND m.ts < toDateTime(intDiv({{ until(to_dttm) }}, bucket_s) * bucket_s, 'UTC')
GROUP BY ts, bucket_s, customer_id, customer_name, dimension, direction, name
