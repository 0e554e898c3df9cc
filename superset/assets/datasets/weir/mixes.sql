{% set long = is_long(from_dttm, to_dttm) -%}
{% set scope = 'customer' if of_customers else scope_of(filter_values) -%}
{% set owner, owner_column = ('customer_id', 'customer_id') if of_customers else ('probe', 'probe') -%}
-- Totals and shares by time, in points of `bucket_s` seconds of whole five-minute windows: over all probes with each flow
-- counted once, or those of the chosen probe or customer. Ranges of more than a month read whole days, which are kept for ever.
SELECT
    {{ point('m.ts') }} AS ts,
    {{ bucket_seconds(from_dttm, to_dttm, 300) }} AS bucket_s,
    m.{{ owner }} AS {{ owner_column }},
    m.customer AS customer_name,
    m.dimension AS dimension,
    m.direction AS direction,
    multiIf(
        m.remainder, 'the rest',
        {% if not of_customers %}m.number = 0 AND m.dimension = 'customer', 'no customer',{% endif %}
        m.dimension = 'as_application' AND m.number = 0, 'unknown AS',
        m.dimension IN ('as', 'as_application') AND m.number != 0, if(m.name = '', concat('AS', toString(m.number)), concat(m.name, ' (AS', toString(m.number), ')')),
        m.name = '', toString(m.number), m.name) AS name,
    if(m.dimension = 'as_application' AND m.remainder, 'all others', m.application) AS application,
    sum(m.octets) AS octets,
    sum(m.packets) AS packets,
    sum(m.flows) AS flows,
    sum(m.ipv4_octets) AS ipv4_octets,
    sum(m.ipv6_octets) AS ipv6_octets
FROM
(
    SELECT ts, scope, probe, customer_id, customer, dimension, direction, number, name, application, remainder, octets, packets, flows, ipv4_octets, ipv6_octets
    FROM v_mixes
    {% if long %}WHERE ts >= toDateTime(today(), 'UTC')
    UNION ALL
    SELECT toDateTime(day, 'UTC'), scope, probe, customer_id, customer, dimension, direction, number, name, application, remainder, octets, packets, flows, ipv4_octets, ipv6_octets
    FROM v_mixes_daily
    WHERE day < today(){% endif %}
) AS m
WHERE m.scope = '{{ scope }}'
  AND {{ within_points('m.ts', from_dttm, to_dttm) }}
GROUP BY ts, bucket_s, {{ owner_column }}, customer_name, dimension, direction, name, application
