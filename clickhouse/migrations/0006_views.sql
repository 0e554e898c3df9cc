-- Views that people and dashboards read. They read their tables with the rights of their definer, so that whoever may
-- read a view needs no right on the tables behind it.

CREATE OR REPLACE FUNCTION weir_protocol_name AS (number) -> transform(number, [1, 2, 6, 17, 41, 47, 50, 51, 58, 89, 103, 132], ['ICMP', 'IGMP', 'TCP', 'UDP', 'IPv6', 'GRE', 'ESP', 'AH', 'ICMPv6', 'OSPF', 'PIM', 'SCTP'], toString(number));
CREATE OR REPLACE FUNCTION weir_addr AS (addr) -> if(startsWith(IPv6NumToString(addr), '::ffff:'), substring(IPv6NumToString(addr), 8), IPv6NumToString(addr));

CREATE OR REPLACE VIEW v_flows
(
    ts DateTime('UTC') COMMENT 'Start of the interval',
    interval_ms UInt32 COMMENT 'Length of the interval in milliseconds',
    probe LowCardinality(String) COMMENT 'Name of the probe',
    worker UInt16 COMMENT 'Worker of the probe',
    record_kind Enum8('flow' = 0, 'overflow' = 1) COMMENT 'flow, or overflow: many flows counted together',
    protocol_name String COMMENT 'Name of the protocol, its number where it has none here',
    src String COMMENT 'Address of the source, IPv4 as IPv4',
    src_port UInt16 COMMENT 'Port of the source',
    dst String COMMENT 'Address of the destination, IPv4 as IPv4',
    dst_port UInt16 COMMENT 'Port of the destination; for ICMP its type * 256 + code',
    vlan UInt16 COMMENT 'VLAN id, 0 for none',
    first_seen DateTime64(3, 'UTC') COMMENT 'First packet in the interval',
    last_seen DateTime64(3, 'UTC') COMMENT 'Last packet in the interval',
    flow_start DateTime64(3, 'UTC') COMMENT 'First packet of the flow ever',
    packets UInt64 COMMENT 'Packets, both directions',
    octets UInt64 COMMENT 'Layer-3 octets, both directions',
    fwd_packets UInt64 COMMENT 'Packets from source to destination',
    fwd_octets UInt64 COMMENT 'Layer-3 octets from source to destination',
    rev_packets UInt64 COMMENT 'Packets from destination to source',
    rev_octets UInt64 COMMENT 'Layer-3 octets from destination to source',
    initiator_guess Bool COMMENT 'The source is a guess'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    ts, interval_ms, probe, worker, record_kind, weir_protocol_name(protocol) AS protocol_name,
    weir_addr(src_addr) AS src, src_port, weir_addr(dst_addr) AS dst, dst_port, vlan,
    first_seen, last_seen, flow_start,
    fwd_packets + rev_packets AS packets, fwd_octets + rev_octets AS octets,
    fwd_packets, fwd_octets, rev_packets, rev_octets, initiator_guess
FROM flows
COMMENT 'Flow records with addresses and protocols to read';

CREATE OR REPLACE VIEW v_top_flows
(
    ts DateTime('UTC') COMMENT 'Start of the window',
    window_s UInt16 COMMENT 'Length of the window in seconds',
    scope Enum8('probe' = 1, 'all' = 2) COMMENT 'probe: the list of one probe. all: the list over all probes',
    probe LowCardinality(String) COMMENT 'Name of the probe, empty for all',
    rank UInt16 COMMENT 'Place in the list, from 1',
    version UInt32 COMMENT 'How often the window was computed; the newest is shown',
    protocol_name String COMMENT 'Name of the protocol, its number where it has none here',
    src String COMMENT 'Address of the source, IPv4 as IPv4',
    src_port UInt16 COMMENT 'Port of the source',
    dst String COMMENT 'Address of the destination, IPv4 as IPv4',
    dst_port UInt16 COMMENT 'Port of the destination; for ICMP its type * 256 + code',
    octets UInt64 COMMENT 'Layer-3 octets of the flow in the window, both directions',
    packets UInt64 COMMENT 'Packets of the flow in the window, both directions',
    fwd_octets UInt64 COMMENT 'Layer-3 octets from source to destination',
    fwd_packets UInt64 COMMENT 'Packets from source to destination',
    rev_octets UInt64 COMMENT 'Layer-3 octets from destination to source',
    rev_packets UInt64 COMMENT 'Packets from destination to source',
    window_octets UInt64 COMMENT 'Layer-3 octets of all flows in the window',
    window_packets UInt64 COMMENT 'Packets of all flows in the window',
    window_flows UInt64 COMMENT 'Distinct flows in the window',
    overflow_octets UInt64 COMMENT 'Of window_octets, what came in overflow records and so could be in no list',
    share Float64 COMMENT 'Part of window_octets that the flow has, 0 to 1',
    probes_reported UInt32 COMMENT 'Probes whose window was complete when the row was computed',
    probes_expected UInt32 COMMENT 'Probes that were enrolled'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    ts, window_s, scope, probe, rank, version,
    weir_protocol_name(protocol) AS protocol_name,
    weir_addr(src_addr) AS src, src_port, weir_addr(dst_addr) AS dst, dst_port,
    octets, packets, fwd_octets, fwd_packets, rev_octets, rev_packets,
    window_octets, window_packets, window_flows, overflow_octets,
    octets / greatest(window_octets, 1) AS share,
    probes_reported, probes_expected
FROM top_flows FINAL
COMMENT 'Top flows of each window, per probe and over all: the newest version of each list';

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

-- What was on the wire, what can be queried, and where the difference went.
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
    source LowCardinality(String) COMMENT 'What the agent captured: af_packet:eth0, file:/path',
    time_shift_ms Int64 COMMENT 'Replays: how far packet times were moved, milliseconds',
    cpu_permille UInt32 COMMENT 'CPU time of the worker over the interval, in thousandths',
    rss_octets UInt64 COMMENT 'Resident memory of the agent',
    close_stall_us UInt64 COMMENT 'How long closing the interval kept the worker from its packets, microseconds',
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
    l.close_stall_us AS close_stall_us, l.updated_at AS updated_at
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

-- Share of what passed the interface that can be queried, per probe and interval.
CREATE OR REPLACE VIEW v_completeness
(
    ts DateTime('UTC') COMMENT 'Start of the interval',
    probe LowCardinality(String) COMMENT 'Name of the probe',
    workers UInt64 COMMENT 'Workers with a row in the ledger',
    workers_incomplete UInt64 COMMENT 'Of these, the ones with batches or the closing record missing, or of which nothing came',
    wire_packets UInt64 COMMENT 'Packets that the interface handed to the workers, and those that passed while no agent ran',
    captured_packets UInt64 COMMENT 'Packets the workers took',
    dropped_packets UInt64 COMMENT 'Packets dropped before the workers',
    not_metered_packets UInt64 COMMENT 'Packets in no record',
    stored_packets UInt64 COMMENT 'Packets in stored records',
    lost_packets Int64 COMMENT 'Published packets that are not stored',
    completeness Float64 COMMENT 'Part of wire_packets that is stored or counted as not metered, 0 to 1; 0 where a closing record is missing, since the wire is unknown then; 1 where nothing was on the wire'
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
COMMENT 'Share of what passed the interface that can be queried, per probe and interval';
