SELECT dst AS server, any(dst_customer) AS customer, uniqExact(src) AS clients, count() AS records,
    formatReadableSize(sum(rev_octets)) AS answered
FROM v_records
WHERE dst_port = 443 AND protocol_name = 'TCP' AND rev_packets > 0
  AND ts > now() - INTERVAL 1 HOUR AND ts < now()
GROUP BY server
ORDER BY clients DESC, sum(rev_octets) DESC
LIMIT 50
