-- Hosts of each customer in the lists of scanners, SYN senders, ICMP errors and UDP work weight.
WITH found AS
(
    SELECT
        max(s.ts) AS newest, s.customer AS customer_id, s.customer_name AS customer_name, s.list AS list, s.host AS host,
        max(s.value) AS value, max(s.addresses) AS addresses, max(s.ports) AS ports, max(s.failed) AS failed, max(s.answered) AS answered,
        max(s.udp_sent) AS udp_sent, max(s.icmp_errors_recv) AS icmp_errors_recv, count() AS windows
    FROM v_top_indicators AS s
    WHERE s.scope = 'customer' AND (s.list != 'scan_failures' OR s.scanner)
      AND s.ts >= toDateTime({{ since(from_dttm) }}, 'UTC') AND s.ts < toDateTime({{ until(to_dttm) }}, 'UTC')
    GROUP BY customer_id, customer_name, list, host
)
SELECT
    newest AS ts, customer_id, customer_name, {{ finding("toString(list)") }} AS finding, host,
    value, addresses, ports, failed, answered, udp_sent, icmp_errors_recv, windows
FROM found
UNION ALL
SELECT toDateTime({{ until(to_dttm) }} - 1, 'UTC'), c.customer_id, c.customer, 'None of its hosts stood out', 'nobody', 0, 0, 0, 0, 0, 0, 0, 0
FROM v_customers AS c
WHERE c.customer_id NOT IN (SELECT customer_id FROM found)
