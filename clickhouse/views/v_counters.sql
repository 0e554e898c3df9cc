CREATE OR REPLACE VIEW v_counters
(
    ts DateTime('UTC') COMMENT 'Start of the interval',
    interval_ms UInt32 COMMENT 'Length of the interval in milliseconds',
    probe LowCardinality(String) COMMENT 'Name of the probe',
    worker UInt16 COMMENT 'Worker of the probe, from 0',
    counter_set LowCardinality(String) COMMENT 'Name of the set: cast, ip_version, protocol, size, drops, or a filter set of the configuration',
    label LowCardinality(String) COMMENT 'Label within the set',
    packets UInt64 COMMENT 'Packets in the interval',
    octets UInt64 COMMENT 'Layer-3 octets in the interval'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT ts, interval_ms, probe, worker, counter_set, label, packets, octets FROM counters
COMMENT 'Packets and octets by counter set and label, for each probe, worker and interval';
