CREATE OR REPLACE VIEW v_autonomous_systems
(
    number UInt32 COMMENT 'Number of the autonomous system',
    name String COMMENT 'Organisation that runs the autonomous system, by the newest file'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT number, argMax(name, ts) AS name FROM autonomous_systems GROUP BY number
COMMENT 'Names of autonomous systems';
