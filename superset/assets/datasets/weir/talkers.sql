{% set scope = 'customer' if of_customers else scope_of(filter_values) -%}
{% set owner, owner_column = ('customer_id', 'customer_id') if of_customers else ('probe', 'probe') -%}
-- The lists of the range's windows added up: each host, port, AS and customer over the windows that list it.
WITH listed AS
(
    SELECT
        max(t.ts) AS newest, t.{{ owner }} AS {{ owner_column }}, t.customer AS customer_name,
        t.list AS list, t.host AS host, t.number AS number, t.name AS name,
        sum(t.in_octets) AS in_octets, sum(t.out_octets) AS out_octets, sum(t.packets) AS packets, max(t.flows) AS flows,
        count() AS windows
    FROM v_top_talkers AS t
    WHERE t.scope = '{{ scope }}'
      AND {{ within('t.ts', from_dttm, to_dttm) }}
    GROUP BY {{ owner_column }}, customer_name, list, host, number, name
)
SELECT
    newest AS ts, {{ owner_column }}, customer_name, toString(list) AS list, host,
    {% if not of_customers %}if(host = '', '', {{ host_link('host') }}) AS host_link,{% endif %}
    number,
    multiIf(
        list IN ('port_tcp', 'port_udp'), if(name = '', toString(number), concat(toString(number), ' ', name)),
        list = 'as', multiIf(number = 0, 'unknown AS', name = '', concat('AS', toString(number)), concat(name, ' (AS', toString(number), ')')),
        {% if not of_customers %}list = 'customer', if(number = 0, 'no customer', name),{% endif %}
        host) AS label,
    in_octets, out_octets, packets, flows, windows
FROM listed
{% if not of_customers -%}
UNION ALL
SELECT
    {{ last_second(to_dttm) }}, {{ chosen(filter_values, "probe") }}, {{ chosen(filter_values, "customer_name") }}, missing.1, '', '', 0,
    missing.2, 0, 0, 0, 0, 0
FROM
(
    SELECT arrayJoin([
        ('customer', 'No customer is declared: weir prefixes set'), ('as', 'No AS is known: see Customers, sites, countries'),
        ('port_tcp', 'No TCP in this time'), ('port_udp', 'No UDP in this time')]) AS missing
)
WHERE missing.1 NOT IN (SELECT toString(list) FROM listed)
{% endif %}
