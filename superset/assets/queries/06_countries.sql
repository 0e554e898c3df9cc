SELECT name AS country, formatReadableSize(sum(octets)) AS bytes,
    round(100 * sum(ipv6_octets) / sum(octets), 1) AS ipv6_percent
FROM v_mixes
WHERE scope = 'all' AND dimension = 'country' AND ts > now() - INTERVAL 1 DAY AND ts < now()
GROUP BY name
ORDER BY sum(octets) DESC
LIMIT 30
