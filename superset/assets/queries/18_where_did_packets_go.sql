SELECT ts, probe, worker, state, on_interface_packets, dropped, missing_batches, lost_packets
FROM v_ledger
WHERE ts > now() - INTERVAL 6 HOUR AND ts < now() - INTERVAL 1 MINUTE
  AND (state NOT IN ('closed', 'stopped') OR dropped_packets > 0 OR lost_packets != 0)
ORDER BY ts DESC
LIMIT 100
