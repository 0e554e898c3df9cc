-- Flow records of other exporters: what came of each, what was lost on the way, and what is not known of it.

ALTER TABLE ledger
    ADD COLUMN IF NOT EXISTS exporter_records Map(LowCardinality(String), UInt64) COMMENT 'Collectors: records that came of each exporter, by protocol, address and observation domain' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS exporter_lost Map(LowCardinality(String), UInt64) COMMENT 'Collectors: what each exporter sent and did not come, by its sequence numbers, in the unit that the name ends with: records, datagrams or samples' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS exporter_without_sampling_rate Map(LowCardinality(String), UInt64) COMMENT 'Collectors: records of exporters that had not said their sampling rate; they are counted as they came' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS exporter_refused Map(LowCardinality(String), UInt64) COMMENT 'Collectors: what of an exporter could not be read, by the cause that the name ends with' CODEC(ZSTD(1));

CREATE OR REPLACE VIEW v_ledger
(
    ts DateTime('UTC') COMMENT 'Start of the interval',
    interval_ms UInt32 COMMENT 'Length of the interval in milliseconds',
    probe LowCardinality(String) COMMENT 'Name of the probe',
    worker UInt16 COMMENT 'Worker of the probe, from 0',
    state Enum8('closed' = 1, 'batches_missing' = 2, 'closing_missing' = 3, 'missing' = 4, 'stopped' = 5) COMMENT 'closed: all batches and the closing record came. batches_missing: some batches did not. closing_missing: batches came, the closing record did not. missing: nothing came. stopped: nothing came, and the agent had said that it would stop',
    epoch UInt64 COMMENT 'Newest run of the agent in this interval, microseconds from 1970 to its start; 0 where nothing came',
    epochs UInt16 COMMENT 'Runs of the agent in this interval; the sums are over all of them',
    version UInt32 COMMENT 'How often the row was written; the newest is shown',
    on_interface_packets UInt64 COMMENT 'Packets that the interface handed to the worker, dropped ones included',
    captured_packets UInt64 COMMENT 'Packets the worker took',
    captured_octets UInt64 COMMENT 'Layer-3 octets of the packets the worker took',
    dropped_packets UInt64 COMMENT 'Packets dropped before the worker, all causes',
    dropped Map(LowCardinality(String), UInt64) COMMENT 'Packets dropped before the worker, by cause',
    in_ring_packets UInt64 COMMENT 'Packets that waited in the ring at the close',
    carried_in_packets UInt64 COMMENT 'Packets carried in from earlier intervals',
    carried_out_packets UInt64 COMMENT 'Packets carried out to later intervals',
    flow_packets UInt64 COMMENT 'Packets in published flow records',
    flow_octets UInt64 COMMENT 'Layer-3 octets in published flow records',
    overflow_packets UInt64 COMMENT 'Packets in published overflow records',
    overflow_octets UInt64 COMMENT 'Layer-3 octets in published overflow records',
    not_metered_packets UInt64 COMMENT 'Packets in no record, all causes',
    not_metered Map(LowCardinality(String), UInt64) COMMENT 'Packets in no record, by cause',
    late_packets UInt64 COMMENT 'Packets older than the open interval, counted in it',
    published_batches UInt64 COMMENT 'Batches the agent says it published',
    published_records UInt64 COMMENT 'Records the agent says it published',
    published_packets UInt64 COMMENT 'Packets in the records the agent says it published',
    published_octets UInt64 COMMENT 'Layer-3 octets in the records the agent says it published',
    received_batches UInt64 COMMENT 'Distinct batches that Flink received',
    received_records UInt64 COMMENT 'Records in them',
    received_packets UInt64 COMMENT 'Packets in them',
    received_octets UInt64 COMMENT 'Layer-3 octets in them',
    repeated_batches UInt64 COMMENT 'Batches that came again and were dropped',
    missing_batches UInt64 COMMENT 'Batches that did not come',
    missing_sequences Array(UInt64) COMMENT 'Their sequence numbers, the first 100',
    stored_batches UInt64 COMMENT 'Distinct batches whose records are in the table flows now',
    stored_records UInt64 COMMENT 'Records in the table flows now, counted from the rows themselves',
    stored_packets UInt64 COMMENT 'Packets in them',
    stored_octets UInt64 COMMENT 'Layer-3 octets in them',
    lost_packets Int64 COMMENT 'Published packets that are not stored; where the closing record is missing, received ones that are not. Below 0: something is stored twice',
    lost_octets Int64 COMMENT 'Layer-3 octets likewise',
    gap_packets UInt64 COMMENT 'After a restart: packets that passed the interface while no agent ran',
    interface_packets UInt64 COMMENT 'Packets by the interface''s own counters in this interval, received and sent (worker 0 only)',
    interface_octets UInt64 COMMENT 'Layer-2 octets by the interface''s own counters in this interval (worker 0 only)',
    clock_offset_us Nullable(Int64) COMMENT 'Offset of the probe''s clock in microseconds, where known',
    agent_version LowCardinality(String) COMMENT 'Version of the agent',
    source LowCardinality(String) COMMENT 'What the agent captured or collects: af_packet:eth0, file:/path, collect:netflow=…',
    time_shift_ms Int64 COMMENT 'Replays: how far packet times were moved, milliseconds',
    cpu_permille UInt32 COMMENT 'CPU time of the worker over the interval, in thousandths',
    rss_octets UInt64 COMMENT 'Resident memory of the agent',
    close_stall_us UInt64 COMMENT 'How long closing the interval kept the worker from its packets, microseconds',
    exporter_records Map(LowCardinality(String), UInt64) COMMENT 'Collectors: records that came of each exporter, by protocol, address and observation domain',
    exporter_lost Map(LowCardinality(String), UInt64) COMMENT 'Collectors: what each exporter sent and did not come, by its sequence numbers, in the unit that the name ends with: records, datagrams or samples',
    exporter_without_sampling_rate Map(LowCardinality(String), UInt64) COMMENT 'Collectors: records of exporters that had not said their sampling rate; they are counted as they came',
    exporter_refused Map(LowCardinality(String), UInt64) COMMENT 'Collectors: what of an exporter could not be read, by the cause that the name ends with',
    updated_at DateTime64(3, 'UTC') COMMENT 'When Flink wrote this version'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    l.ts AS ts, l.interval_ms AS interval_ms, l.probe AS probe, l.worker AS worker, l.state AS state,
    l.epoch AS epoch, l.epochs AS epochs, l.version AS version,
    l.on_interface_packets AS on_interface_packets,
    l.captured_packets AS captured_packets, l.captured_octets AS captured_octets,
    arraySum(mapValues(l.dropped)) AS dropped_packets, l.dropped AS dropped,
    l.in_ring_packets AS in_ring_packets,
    l.carried_in_packets AS carried_in_packets, l.carried_out_packets AS carried_out_packets,
    l.flow_packets AS flow_packets, l.flow_octets AS flow_octets,
    l.overflow_packets AS overflow_packets, l.overflow_octets AS overflow_octets,
    arraySum(mapValues(l.not_metered_packets)) AS not_metered_packets,
    l.not_metered_packets AS not_metered, l.late_packets AS late_packets,
    l.published_batches AS published_batches, l.published_records AS published_records,
    l.flow_packets + l.overflow_packets AS published_packets, l.flow_octets + l.overflow_octets AS published_octets,
    l.received_batches AS received_batches, l.received_records AS received_records,
    l.received_packets AS received_packets, l.received_octets AS received_octets,
    l.repeated_batches AS repeated_batches, l.missing_batches AS missing_batches, l.missing_sequences AS missing_sequences,
    s.batches AS stored_batches, s.records AS stored_records, s.packets AS stored_packets, s.octets AS stored_octets,
    toInt64(greatest(l.flow_packets + l.overflow_packets, l.received_packets)) - toInt64(s.packets) AS lost_packets,
    toInt64(greatest(l.flow_octets + l.overflow_octets, l.received_octets)) - toInt64(s.octets) AS lost_octets,
    l.gap_packets AS gap_packets, l.interface_packets AS interface_packets, l.interface_octets AS interface_octets,
    l.clock_offset_us AS clock_offset_us, l.agent_version AS agent_version, l.source AS source,
    l.time_shift_ms AS time_shift_ms, l.cpu_permille AS cpu_permille, l.rss_octets AS rss_octets,
    l.close_stall_us AS close_stall_us,
    l.exporter_records AS exporter_records,
    l.exporter_lost AS exporter_lost,
    l.exporter_without_sampling_rate AS exporter_without_sampling_rate,
    l.exporter_refused AS exporter_refused,
    l.updated_at AS updated_at
FROM (SELECT * FROM ledger FINAL) AS l
LEFT JOIN
(
    -- The projection `stored` of flows answers this; a condition on ts, probe or worker reaches it through the join.
    SELECT probe, worker, ts, count() AS records, uniqExact(epoch, sequence) AS batches,
        sum(fwd_packets + rev_packets) AS packets, sum(fwd_octets + rev_octets) AS octets
    FROM flows
    GROUP BY probe, worker, ts
) AS s ON s.probe = l.probe AND s.worker = l.worker AND s.ts = l.ts
SETTINGS join_use_nulls = 0
COMMENT 'The ledger, beside what is stored: for each probe, worker and interval, what was on the wire, what can be queried, and where the difference went';
