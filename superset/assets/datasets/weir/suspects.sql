{% set scope = 'customer' if of_customers else scope_of(filter_values) -%}
{% set owner, owner_column = ('customer_id', 'customer_id') if of_customers else ('probe', 'probe') -%}
-- Hosts of the lists of scanners, SYN senders, ICMP errors and UDP work weight, with the highest value of the time range.
WITH found AS
(
    SELECT
        max(s.ts) AS newest, s.{{ owner }} AS {{ owner_column }}, s.customer AS customer_name, s.list AS list, s.host AS host,
        {% if not of_customers %}any(s.local) AS local,{% endif %}
        max(s.value) AS value, max(s.addresses) AS addresses, max(s.ports) AS ports, max(s.failed) AS failed, max(s.answered) AS answered, max(s.failed + s.answered) AS tried,
        max(s.udp_sent) AS udp_sent, max(s.icmp_errors_recv) AS icmp_errors_recv, count() AS windows
    FROM v_top_indicators AS s
    WHERE s.scope = '{{ scope }}' AND (s.list != 'scan_failures' OR s.scanner)
      AND {{ within('s.ts', from_dttm, to_dttm) }}
    GROUP BY {{ owner_column }}, customer_name, list, host
)
SELECT
    newest AS ts, {{ owner_column }}, customer_name,
    {% if not of_customers %}toString(list) AS list,{% endif %}
    {{ finding("toString(list)") }} AS finding, host,
    {% if not of_customers %}{{ host_link('host') }} AS host_link, if(local, 'us', 'them') AS side,{% endif %}
    value, addresses, ports, failed, answered, tried, udp_sent, icmp_errors_recv, windows
FROM found
UNION ALL
{% if of_customers -%}
SELECT {{ last_second(to_dttm) }}, c.customer_id, c.customer, 'None of its hosts stood out', 'nobody', 0, 0, 0, 0, 0, 0, 0, 0, 0
FROM v_customers AS c
WHERE c.customer_id NOT IN (SELECT customer_id FROM found)
{% else -%}
SELECT
    {{ last_second(to_dttm) }}, {{ chosen(filter_values, "probe") }}, {{ chosen(filter_values, "customer_name") }}, missing, {{ finding("missing") }}, 'nobody', 'nobody', '',
    0, 0, 0, 0, 0, 0, 0, 0, 0
FROM
(
    SELECT arrayJoin({{ host_lists() }}) AS missing
)
WHERE missing NOT IN (SELECT toString(list) FROM found)
{% endif %}
