SELECT day, direction, formatReadableSize(sum(octets)) AS bytes, round(8 * sum(octets) / 86400 / 1e6, 2) AS mbit_s,
    round(100 * sum(ipv6_octets) / sum(octets), 1) AS ipv6_percent
FROM v_mixes_daily
WHERE scope = 'all' AND dimension = 'total' AND day > today() - INTERVAL 5 YEAR
GROUP BY day, direction
ORDER BY day, direction
