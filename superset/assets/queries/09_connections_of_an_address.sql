SELECT flow_start, last_seen, src, src_port, dst, dst_port, protocol_name, application, server_name, packets, formatReadableSize(octets) AS size
FROM connections
WHERE (src_addr = toIPv6('192.0.2.5') OR dst_addr = toIPv6('192.0.2.5'))
  AND flow_start > now() - INTERVAL 6 HOUR AND flow_start < now()
ORDER BY octets DESC
LIMIT 100
