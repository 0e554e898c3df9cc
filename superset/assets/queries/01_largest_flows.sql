SELECT ts, rank, src, src_port, dst, dst_port, protocol_name,
    formatReadableSize(octets) AS size, round(100 * share, 1) AS percent
FROM v_top_flows
WHERE scope = 'all' AND list = 'ip_octets'
  AND ts = (SELECT max(ts) FROM v_top_flows WHERE scope = 'all' AND ts > now() - INTERVAL 10 MINUTE AND ts < now())
ORDER BY rank
LIMIT 20
