SELECT day, formatReadableSize(sumIf(sent_octets, canonical)) AS sent, formatReadableSize(sumIf(received_octets, canonical)) AS received,
    sumIf(flows_begun, canonical) AS flows_begun, sumIf(flows_received, canonical) AS flows_received, groupUniqArray(probe) AS probes
FROM v_host_days
WHERE addr = toIPv6('192.0.2.5')
GROUP BY day
ORDER BY day
