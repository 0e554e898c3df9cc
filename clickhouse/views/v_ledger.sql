CREATE OR REPLACE VIEW v_ledger
(
    LIKE ledger (ts, interval_ms, probe, worker),
    state Enum8('closed' = 1, 'batches_missing' = 2, 'closing_missing' = 3, 'missing' = 4, 'stopped' = 5) COMMENT 'closed: all batches and the closing record arrived. batches_missing: some batches did not arrive. closing_missing: batches arrived, but not the closing record. missing: nothing arrived. stopped: nothing arrived, and the agent had announced its stop',
    epoch UInt64 COMMENT 'Newest run of the agent in this interval, microseconds from 1970 to its start; 0 if nothing arrived',
    epochs UInt16 COMMENT 'Number of runs of the agent in this interval; the sums cover all of them',
    version UInt32 COMMENT 'Number of times that the row was written; the view shows the newest version',
    on_interface_packets UInt64 COMMENT 'Packets that the interface delivered to the worker from the previous close to this one, including dropped ones; those that belong to another interval are in waited_packets',
    LIKE ledger (captured_packets, captured_octets),
    dropped_packets UInt64 COMMENT 'Packets dropped before the worker, all causes',
    LIKE ledger (dropped, in_ring_packets, carried_in_packets, carried_out_packets),
    waited_packets Int64 COMMENT 'Packets of this interval that the interface delivered in an earlier one, less packets of later intervals that it delivered in this one: they waited in the ring, or for other fragments. In each row on_interface_packets + waited_packets = dropped_packets + not_metered_packets + published_packets; over a run of the agent waited_packets adds up to 0, less the packets that still wait. 0 without a closing record',
    flow_packets UInt64 COMMENT 'Packets in published flow records',
    LIKE ledger (flow_octets, overflow_packets, overflow_octets),
    not_metered_packets UInt64 COMMENT 'Packets in no record, all causes',
    not_metered Map(LowCardinality(String), UInt64) COMMENT 'Packets in no record, by cause',
    LIKE ledger (late_packets, published_batches, published_records),
    published_packets UInt64 COMMENT 'Packets in the published records, as the agent reports them',
    published_octets UInt64 COMMENT 'Layer-3 octets in the published records, as the agent reports them',
    LIKE ledger (received_batches, received_records, received_packets, received_octets, repeated_batches, missing_batches,
        missing_sequences),
    LIKE ledger (published_nat_events, published_interface_counters, published_names),
    LIKE ledger (received_nat_events, received_interface_counters, received_names),
    stored_batches UInt64 COMMENT 'Number of batches with rows in the tables flows, nat_events and interface_counters now. A batch that contains only names is not counted: newer names replace its rows',
    stored_records UInt64 COMMENT 'Records in the table flows now, counted from the rows themselves',
    stored_packets UInt64 COMMENT 'Packets in the stored records',
    stored_octets UInt64 COMMENT 'Layer-3 octets in the stored records',
    stored_nat_events UInt64 COMMENT 'Events of translators and firewalls in the table nat_events now, counted from the rows themselves',
    stored_interface_counters UInt64 COMMENT 'Samples in the table interface_counters now, counted likewise',
    lost_packets Int64 COMMENT 'Published packets that are not stored; if the closing record is missing, received packets that are not stored. Below 0: some packets are stored twice',
    lost_octets Int64 COMMENT 'Layer-3 octets likewise',
    LIKE ledger (gap_packets, interface_packets, interface_octets, clock_offset_us, agent_version),
    source LowCardinality(String) COMMENT 'Origin of the data: af_packet:eth0, file:/path, collect:netflow=…',
    LIKE ledger (time_shift_ms, cpu_permille, rss_octets, close_stall_us, exporter_records, exporter_lost,
        exporter_without_sampling_rate, exporter_refused, exporter_sampling, exporter_reports, updated_at)
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
    if(
        l.state IN ('closed', 'batches_missing'),
        toInt64(arraySum(mapValues(l.dropped)) + arraySum(mapValues(l.not_metered_packets)) + l.flow_packets + l.overflow_packets) - toInt64(l.on_interface_packets),
        0) AS waited_packets,
    l.flow_packets AS flow_packets, l.flow_octets AS flow_octets,
    l.overflow_packets AS overflow_packets, l.overflow_octets AS overflow_octets,
    arraySum(mapValues(l.not_metered_packets)) AS not_metered_packets,
    l.not_metered_packets AS not_metered, l.late_packets AS late_packets,
    l.published_batches AS published_batches, l.published_records AS published_records,
    l.flow_packets + l.overflow_packets AS published_packets, l.flow_octets + l.overflow_octets AS published_octets,
    l.received_batches AS received_batches, l.received_records AS received_records,
    l.received_packets AS received_packets, l.received_octets AS received_octets,
    l.repeated_batches AS repeated_batches, l.missing_batches AS missing_batches, l.missing_sequences AS missing_sequences,
    l.published_nat_events AS published_nat_events, l.published_interface_counters AS published_interface_counters,
    l.published_names AS published_names,
    l.received_nat_events AS received_nat_events, l.received_interface_counters AS received_interface_counters,
    l.received_names AS received_names,
    s.batches + length(r.batches) AS stored_batches, s.records AS stored_records, s.packets AS stored_packets, s.octets AS stored_octets,
    r.nat_events AS stored_nat_events, r.interface_counters AS stored_interface_counters,
    toInt64(greatest(l.flow_packets + l.overflow_packets, l.received_packets)) - toInt64(s.packets) AS lost_packets,
    toInt64(greatest(l.flow_octets + l.overflow_octets, l.received_octets)) - toInt64(s.octets) AS lost_octets,
    l.gap_packets AS gap_packets, l.interface_packets AS interface_packets, l.interface_octets AS interface_octets,
    l.clock_offset_us AS clock_offset_us, l.agent_version AS agent_version, l.source AS source,
    l.time_shift_ms AS time_shift_ms, l.cpu_permille AS cpu_permille, l.rss_octets AS rss_octets,
    l.close_stall_us AS close_stall_us, l.exporter_records AS exporter_records, l.exporter_lost AS exporter_lost,
    l.exporter_without_sampling_rate AS exporter_without_sampling_rate, l.exporter_refused AS exporter_refused,
    l.exporter_sampling AS exporter_sampling, l.exporter_reports AS exporter_reports,
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
LEFT JOIN
(
    -- The same for events and samples of counters, each through the projection of its own table. A batch may bring events and counters, but no flows.
    SELECT probe, worker, ts, sum(n * (of = 'nat_events')) AS nat_events, sum(n * (of = 'interface_counters')) AS interface_counters,
        groupUniqArrayArray(which) AS batches
    FROM
    (
        SELECT 'nat_events' AS of, probe, worker, ts, count() AS n, groupUniqArray((epoch, sequence)) AS which
        FROM nat_events
        GROUP BY probe, worker, ts
        UNION ALL
        SELECT 'interface_counters', probe, worker, ts, count(), groupUniqArray((epoch, sequence))
        FROM interface_counters
        GROUP BY probe, worker, ts
    )
    GROUP BY probe, worker, ts
) AS r ON r.probe = l.probe AND r.worker = l.worker AND r.ts = l.ts
SETTINGS join_use_nulls = 0
COMMENT 'The ledger compared with the store: for each probe, worker and interval, the packets on the wire, the packets that can be queried, and the cause of each difference';
