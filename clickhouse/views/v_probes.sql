CREATE OR REPLACE VIEW v_probes
(
    probe String COMMENT 'Name of the probe',
    LIKE probes (workers, interval_ms, site, rank, one_way, enrolled_at)
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT toString(probe) AS probe, workers, interval_ms, site, rank, one_way, enrolled_at FROM probes FINAL
COMMENT 'Enrolled probes as they are declared now';
