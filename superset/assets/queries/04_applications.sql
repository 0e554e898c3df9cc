SELECT name AS application,
    formatReadableSize(sumIf(octets, direction = 'in')) AS bytes_in,
    formatReadableSize(sumIf(octets, direction = 'out')) AS bytes_out,
    round(100 * sum(octets) / sum(sum(octets)) OVER (), 1) AS percent
FROM v_mixes
WHERE scope = 'all' AND dimension = 'application' AND ts > now() - INTERVAL 1 DAY AND ts < now()
GROUP BY name
ORDER BY sum(octets) DESC
LIMIT 50
