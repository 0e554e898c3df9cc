-- Packets of each probe and interval: those accounted for, and those missing. A worker without a closing record did not
-- report what it dropped; it adds the packets that arrived, and counts as unknown.
CREATE OR REPLACE VIEW v_completeness
(
    ts DateTime('UTC') COMMENT 'Start of the interval',
    probe LowCardinality(String) COMMENT 'Name of the probe',
    workers UInt64 COMMENT 'Workers with a row in the ledger',
    workers_incomplete UInt64 COMMENT 'Number of these workers with missing batches, without a closing record, or without any message',
    workers_unknown UInt64 COMMENT 'Number of these workers without a closing record, or without any message: nobody knows which of their packets are missing, and missing_packets and completeness leave them out',
    wire_packets UInt64 COMMENT 'Packets that the interface delivered to the workers, and those that passed while no agent ran',
    captured_packets UInt64 COMMENT 'Packets the workers took',
    dropped_packets UInt64 COMMENT 'Packets dropped before the workers',
    not_metered_packets UInt64 COMMENT 'Packets in no record',
    stored_packets UInt64 COMMENT 'Packets in stored records',
    lost_packets UInt64 COMMENT 'Published packets that are not stored',
    doubled_packets UInt64 COMMENT 'Stored packets that the ledger does not know as published: stored twice, or published for an interval that it no longer keeps',
    accounted_packets UInt64 COMMENT 'Packets that are stored, each once, or in no record for a stated cause',
    missing_packets UInt64 COMMENT 'Packets that were dropped, passed while no agent ran, or were published and are not stored',
    completeness Nullable(Float64) COMMENT 'accounted_packets as a fraction of accounted_packets + missing_packets: 1 exactly if no packet is missing, and if there was none; NULL if there was none and a worker is unknown. Add up both columns, rather than take a mean of this one'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    l.ts AS ts, l.probe AS probe,
    count() AS workers,
    countIf(l.state NOT IN ('closed', 'stopped')) AS workers_incomplete,
    countIf(l.state IN ('closing_missing', 'missing')) AS workers_unknown,
    sum(l.on_interface_packets) + sum(l.gap_packets) AS wire_packets,
    sum(l.captured_packets) AS captured_packets,
    sum(l.dropped_packets) AS dropped_packets,
    sum(l.not_metered_packets) AS not_metered_packets,
    sum(l.stored_packets) AS stored_packets,
    toUInt64(sum(greatest(l.lost_packets, 0))) AS lost_packets,
    toUInt64(sum(greatest(-l.lost_packets, 0))) AS doubled_packets,
    toUInt64(stored_packets - doubled_packets + not_metered_packets) AS accounted_packets,
    dropped_packets + sum(l.gap_packets) + lost_packets AS missing_packets,
    if(
        accounted_packets + missing_packets = 0,
        if(workers_unknown > 0, NULL, 1.),
        accounted_packets / (accounted_packets + missing_packets)) AS completeness
FROM v_ledger AS l
GROUP BY l.ts, l.probe
COMMENT 'Share of the packets that can be queried, per probe and interval';
