SELECT host, formatReadableSize(sum(in_octets)) AS received, formatReadableSize(sum(out_octets)) AS sent, count() AS windows
FROM v_top_talkers
WHERE scope = 'all' AND list = 'host_in' AND ts > now() - INTERVAL 1 HOUR AND ts < now()
GROUP BY host
ORDER BY sum(octets) DESC
LIMIT 20
