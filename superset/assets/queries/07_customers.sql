SELECT customer_name, formatReadableSize(sum(octets)) AS bytes,
    argMax(ts, octets) AS busiest_five_minutes,
    round(8 * max(octets) / 300 / 1e6, 2) AS mbit_s_then
FROM
(
    SELECT customer_name, ts, sum(octets) AS octets
    FROM v_mixes
    WHERE scope = 'customer' AND dimension = 'total' AND ts > now() - INTERVAL 1 DAY AND ts < now()
    GROUP BY customer_name, ts
)
GROUP BY customer_name
ORDER BY sum(octets) DESC
