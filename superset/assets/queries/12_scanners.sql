SELECT host, any(local) AS local, max(failed) AS unanswered, max(answered) AS answered, max(s.failed + s.answered) AS tried,
    min(ts) AS first_window, max(ts) AS last_window
FROM v_top_indicators AS s
WHERE list = 'scan_failures' AND scanner AND scope = 'all' AND ts > now() - INTERVAL 1 HOUR AND ts < now()
GROUP BY host
ORDER BY unanswered DESC
