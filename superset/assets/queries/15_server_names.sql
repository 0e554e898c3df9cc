SELECT server_name, uniqExact(src) AS clients, uniqExact(dst) AS addresses, formatReadableSize(sum(fwd_octets + rev_octets)) AS size
FROM v_records
WHERE server_name != '' AND nation_direction IN ('out', 'internal', 'unknown') AND ts > now() - INTERVAL 1 HOUR AND ts < now()
GROUP BY server_name
ORDER BY sum(fwd_octets + rev_octets) DESC
LIMIT 50
