SELECT toStartOfHour(ts) AS hour, direction,
    round(8 * sum(ipv4_octets) / (300 * uniqExact(ts)) / 1e6, 2) AS ipv4_mbit_s,
    round(8 * sum(ipv6_octets) / (300 * uniqExact(ts)) / 1e6, 2) AS ipv6_mbit_s,
    sum(flows) AS flows_begun
FROM v_mixes
WHERE scope = 'all' AND dimension = 'total' AND ts > now() - INTERVAL 1 DAY AND ts < now()
GROUP BY hour, direction
ORDER BY hour, direction
