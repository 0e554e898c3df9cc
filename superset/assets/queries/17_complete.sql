SELECT toStartOfFifteenMinutes(ts) AS quarter, probe, sum(accounted_packets) AS accounted, sum(missing_packets) AS missing,
    floor(100 * accounted / nullIf(accounted + missing, 0), 3) AS percent, sum(workers_unknown) AS reports_missing
FROM v_completeness
WHERE ts > now() - INTERVAL 3 HOUR AND ts < now() - INTERVAL 1 MINUTE
GROUP BY quarter, probe
ORDER BY quarter DESC, probe
