SELECT DISTINCT toString(m.counter_set) AS counter_set FROM v_counter_means AS m WHERE m.window_s = 3600 AND m.scope = 'all' AND m.counter_set != 'applications' AND m.ts >= now() - INTERVAL 1 DAY
UNION DISTINCT
SELECT DISTINCT toString(m.counter_set) AS counter_set FROM v_counter_means AS m WHERE m.window_s = 300 AND m.scope = 'all' AND m.counter_set != 'applications' AND m.ts >= now() - INTERVAL 1 HOUR
