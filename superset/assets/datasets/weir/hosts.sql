-- The busiest hosts of the last hour, for the list of the filter; the viewer may type any other address.
SELECT h.host AS host, sum(h.octets) AS octets
FROM v_top_talkers AS h
WHERE h.list IN ('host_in', 'host_out') AND h.scope = 'all' AND h.ts >= now() - INTERVAL 1 HOUR
GROUP BY host
ORDER BY octets DESC
LIMIT 500
