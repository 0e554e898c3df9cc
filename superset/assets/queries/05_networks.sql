SELECT number AS as_number, any(name) AS as_name,
    formatReadableSize(sumIf(octets, direction = 'in')) AS bytes_in,
    formatReadableSize(sumIf(octets, direction = 'out')) AS bytes_out
FROM v_mixes
WHERE scope = 'all' AND dimension = 'as' AND NOT remainder AND ts > now() - INTERVAL 1 DAY AND ts < now()
GROUP BY number
ORDER BY sum(octets) DESC
LIMIT 20
