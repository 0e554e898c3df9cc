SELECT day, formatReadableSize(sum(sent_octets)) AS sent, formatReadableSize(sum(received_octets)) AS received,
    sum(flows_begun) AS flows_begun, sum(flows_received) AS flows_received, groupUniqArray(probe) AS probes
FROM v_host_days
WHERE addr = toIPv6('192.0.2.5')
GROUP BY day
ORDER BY day
