SELECT toStartOfFifteenMinutes(ts) AS quarter, probe, sum(wire_packets) AS on_the_wire, sum(dropped_packets) AS dropped,
    sum(lost_packets) AS lost, round(100 * avg(completeness), 3) AS percent
FROM v_completeness
WHERE ts > now() - INTERVAL 3 HOUR AND ts < now() - INTERVAL 1 MINUTE
GROUP BY quarter, probe
ORDER BY quarter DESC, probe
