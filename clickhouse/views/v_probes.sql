CREATE OR REPLACE VIEW v_probes
(
    probe String COMMENT 'Name of the probe',
    workers UInt16 COMMENT 'Workers the probe may have: partitions of its topics',
    interval_ms UInt32 COMMENT 'Length of its intervals in milliseconds',
    site String COMMENT 'Where it stands',
    rank UInt32 COMMENT 'Place among the probes that see the same flow: the lower comes first',
    one_way Bool COMMENT 'It sees one direction of each flow only',
    enrolled_at DateTime('UTC') COMMENT 'When it was enrolled'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT toString(probe) AS probe, workers, interval_ms, site, rank, one_way, enrolled_at FROM probes FINAL
COMMENT 'Enrolled probes as they are declared now';
