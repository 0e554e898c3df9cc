CREATE OR REPLACE VIEW v_counters
(
    LIKE counters (ts, interval_ms, probe, worker, counter_set, label, packets, octets)
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT ts, interval_ms, probe, worker, counter_set, label, packets, octets FROM counters
COMMENT 'Packets and octets by counter set and label, for each probe, worker and interval';
