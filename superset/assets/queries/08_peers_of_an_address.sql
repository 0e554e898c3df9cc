SELECT peer, protocol_name, port, min(ts) AS first_hour, max(ts) AS last_hour,
    formatReadableSize(sum(sent_octets)) AS sent, formatReadableSize(sum(received_octets)) AS received
FROM v_host_peers
WHERE canonical AND addr = toIPv6('192.0.2.5') AND ts > now() - INTERVAL 1 YEAR
GROUP BY peer, protocol_name, port
ORDER BY sum(sent_octets + received_octets) DESC
LIMIT 50
