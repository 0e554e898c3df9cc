SELECT customer, formatReadableSize(sum(octets)) AS bytes,
    argMax(ts, octets) AS busiest_five_minutes,
    round(8 * max(octets) / 300 / 1e6, 2) AS mbit_s_then
FROM
(
    SELECT customer, ts, sum(octets) AS octets
    FROM v_mixes
    WHERE scope = 'customer' AND dimension = 'total' AND ts > now() - INTERVAL 1 DAY AND ts < now()
    GROUP BY customer, ts
)
GROUP BY customer
ORDER BY sum(octets) DESC
