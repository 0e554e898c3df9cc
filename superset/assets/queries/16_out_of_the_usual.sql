SELECT m.ts AS ts, m.counter_set AS counter_set, m.label AS label,
    round(m.packets_per_second, 2) AS packets_per_second, round(b.packets_per_second, 2) AS usual
FROM v_counter_means AS m
INNER JOIN v_baseline AS b ON b.scope = m.scope AND b.probe = m.probe AND b.counter_set = m.counter_set
    AND b.label = m.label AND b.hour = toHour(m.ts) AND b.weekend = (toDayOfWeek(m.ts) > 5)
WHERE m.scope = 'all' AND b.scope = 'all' AND m.window_s = 300 AND m.ts > now() - INTERVAL 1 HOUR AND m.ts < now()
  AND abs(m.packets_per_second - b.packets_per_second) > 5 * greatest(b.packets_per_second_mad, 1)
ORDER BY m.ts DESC, abs(m.packets_per_second - b.packets_per_second) DESC
