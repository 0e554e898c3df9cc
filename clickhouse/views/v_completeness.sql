-- Share of the interface's packets that can be queried, per probe and interval.
CREATE OR REPLACE VIEW v_completeness
(
    ts DateTime('UTC') COMMENT 'Start of the interval',
    probe LowCardinality(String) COMMENT 'Name of the probe',
    workers UInt64 COMMENT 'Workers with a row in the ledger',
    workers_incomplete UInt64 COMMENT 'Number of these workers with missing batches, without a closing record, or without any message',
    wire_packets UInt64 COMMENT 'Packets that the interface delivered to the workers, and those that passed while no agent ran',
    captured_packets UInt64 COMMENT 'Packets the workers took',
    dropped_packets UInt64 COMMENT 'Packets dropped before the workers',
    not_metered_packets UInt64 COMMENT 'Packets in no record',
    stored_packets UInt64 COMMENT 'Packets in stored records',
    lost_packets Int64 COMMENT 'Published packets that are not stored',
    completeness Float64 COMMENT 'Fraction of wire_packets that is stored or counted as not metered, 0 to 1; 0 if a closing record is missing, because the packets on the wire are then unknown; 1 if nothing was on the wire'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    l.ts AS ts, l.probe AS probe,
    count() AS workers,
    countIf(l.state NOT IN ('closed', 'stopped')) AS workers_incomplete,
    sum(l.on_interface_packets) + sum(l.gap_packets) AS wire_packets,
    sum(l.captured_packets) AS captured_packets,
    sum(l.dropped_packets) AS dropped_packets,
    sum(l.not_metered_packets) AS not_metered_packets,
    sum(l.stored_packets) AS stored_packets,
    sum(l.lost_packets) AS lost_packets,
    multiIf(
        countIf(l.state IN ('closing_missing', 'missing')) > 0, 0.,
        wire_packets = 0, 1.,
        (sum(l.stored_packets) + sum(l.not_metered_packets)) / wire_packets) AS completeness
FROM v_ledger AS l
GROUP BY l.ts, l.probe
COMMENT 'Share of the interface''s packets that can be queried, per probe and interval';
