-- The lists of each customer's windows added up: its own hosts, the ports it used, the AS it talked to.
WITH listed AS
(
    SELECT
        max(t.ts) AS newest,
        t.customer AS customer_id,
        t.customer_name AS customer_name,
        t.list AS list,
        t.host AS host,
        t.number AS number,
        t.name AS name,
        sum(t.in_octets) AS in_octets,
        sum(t.out_octets) AS out_octets,
        sum(t.packets) AS packets,
        max(t.flows) AS flows,
        count() AS windows
    FROM v_top_talkers AS t
    WHERE t.scope = 'customer'
      AND t.ts >= toDateTime({{ since(from_dttm) }}, 'UTC') AND t.ts < toDateTime({{ until(to_dttm) }}, 'UTC')
    GROUP BY customer_id, customer_name, list, host, number, name
)
SELECT
    newest AS ts, customer_id, customer_name, toString(list) AS list, host,
    number,
    multiIf(
        list IN ('port_tcp', 'port_udp'), if(name = '', toString(number), concat(toString(number), ' ', name)),
        list = 'as', multiIf(number = 0, 'unknown AS', name = '', concat('AS', toString(number)), concat(name, ' (AS', toString(number), ')')),
        host) AS label,
    in_octets, out_octets, packets, flows, windows
FROM listed
