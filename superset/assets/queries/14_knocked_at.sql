SELECT protocol_name, dst_port, uniqExact(src) AS sources, uniqExact(dst) AS destinations, sum(fwd_packets) AS packets
FROM v_records
WHERE nation_direction = 'in' AND rev_packets = 0 AND ts > now() - INTERVAL 1 HOUR AND ts < now()
GROUP BY protocol_name, dst_port
ORDER BY sources DESC, packets DESC
LIMIT 30
