SELECT first_seen, src, src_port, dst, dst_port, protocol_name, application, server_name, packets, formatReadableSize(octets) AS size
FROM connections
WHERE (src = '192.0.2.5' OR dst = '192.0.2.5')
  AND ts > now() - INTERVAL 1 HOUR AND ts < now()
ORDER BY octets DESC
LIMIT 100
