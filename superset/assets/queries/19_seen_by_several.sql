SELECT observers, count() AS records, countIf(canonical) AS that_count,
    formatReadableSize(sum(fwd_octets + rev_octets)) AS seen, formatReadableSize(sumIf(fwd_octets + rev_octets, canonical)) AS counted
FROM v_observations
WHERE window_start > now() - INTERVAL 5 MINUTE AND window_start < now()
GROUP BY observers
ORDER BY observers
