{% set scope = scope_of(filter_values) -%}
-- Hosts of the lists of scanners, SYN senders, ICMP errors and UDP work weight, with the highest value of the time range.
WITH found AS
(
    SELECT
        max(s.ts) AS newest, s.probe AS probe, s.customer_name AS customer_name, s.list AS list, s.host AS host, any(s.local) AS local,
        max(s.value) AS value, max(s.addresses) AS addresses, max(s.ports) AS ports, max(s.failed) AS failed, max(s.answered) AS answered,
        max(s.udp_sent) AS udp_sent, max(s.icmp_errors_recv) AS icmp_errors_recv, count() AS windows
    FROM v_top_indicators AS s
    WHERE s.scope = '{{ scope }}' AND (s.list != 'scan_failures' OR s.scanner)
      AND s.ts >= toDateTime({{ since(from_dttm) }}, 'UTC') AND s.ts < toDateTime({{ until(to_dttm) }}, 'UTC')
    GROUP BY probe, customer_name, list, host
)
SELECT
    newest AS ts, probe, customer_name, toString(list) AS list,
    {{ finding("toString(list)") }} AS finding,
    host, {{ host_link('host') }} AS host_link, if(local, 'us', 'them') AS side,
    value, addresses, ports, failed, answered, udp_sent, icmp_errors_recv, windows
FROM found
UNION ALL
SELECT
    toDateTime({{ until(to_dttm) }} - 1, 'UTC'), {{ chosen(filter_values, "probe") }}, {{ chosen(filter_values, "customer_name") }}, missing, {{ finding("missing") }}, 'nobody', 'nobody', '',
    0, 0, 0, 0, 0, 0, 0, 0
FROM
(
    SELECT arrayJoin({{ host_lists() }}) AS missing
)
WHERE missing NOT IN (SELECT toString(list) FROM found)
