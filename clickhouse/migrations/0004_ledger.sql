-- Where every packet went. One row for each enrolled probe, worker and interval, whether or not anything came;
-- written again with a higher version when more is known. What is stored is not in here: v_ledger counts it from
-- the table flows itself.

CREATE TABLE IF NOT EXISTS ledger
(
    ts                      DateTime('UTC') COMMENT 'Start of the interval' CODEC(Delta, ZSTD(1)),
    interval_ms             UInt32 COMMENT 'Length of the interval in milliseconds',
    probe                   LowCardinality(String) COMMENT 'Name of the probe',
    worker                  UInt16 COMMENT 'Worker of the probe, from 0',
    version                 UInt32 COMMENT 'How often the row was written; the highest holds',
    state                   Enum8('closed' = 1, 'batches_missing' = 2, 'closing_missing' = 3, 'missing' = 4, 'stopped' = 5) COMMENT 'closed: all batches and the closing record came. batches_missing: some batches did not. closing_missing: batches came, the closing record did not (an agent killed, a record lost). missing: nothing came. stopped: nothing came, and the agent had said that it would stop',
    epoch                   UInt64 COMMENT 'Newest run of the agent in this interval, microseconds from 1970 to its start; 0 where nothing came',
    epochs                  UInt16 COMMENT 'Runs of the agent in this interval; more than 1 after a restart. The sums are over all of them',
    on_interface_packets    UInt64 COMMENT 'Packets that the interface handed to the worker, dropped ones included',
    captured_packets        UInt64 COMMENT 'Packets the worker took',
    captured_octets         UInt64 COMMENT 'Layer-3 octets of the packets the worker took',
    dropped                 Map(LowCardinality(String), UInt64) COMMENT 'Packets dropped before the worker, by cause',
    in_ring_packets         UInt64 COMMENT 'Packets that waited in the ring at the close',
    carried_in_packets      UInt64 COMMENT 'Packets carried in from earlier intervals',
    carried_in_octets       UInt64 COMMENT 'Layer-3 octets carried in from earlier intervals',
    carried_out_packets     UInt64 COMMENT 'Packets carried out to later intervals',
    carried_out_octets      UInt64 COMMENT 'Layer-3 octets carried out to later intervals',
    flow_packets            UInt64 COMMENT 'Packets in published flow records. Where the closing record did not come: by the difference of the sums over the epoch in the closing records around it (of several lost in a row the last one carries what cannot be told apart); where no later one tells, what was received',
    flow_octets             UInt64 COMMENT 'Layer-3 octets in published flow records',
    overflow_packets        UInt64 COMMENT 'Packets in published overflow records',
    overflow_octets         UInt64 COMMENT 'Layer-3 octets in published overflow records',
    not_metered_packets     Map(LowCardinality(String), UInt64) COMMENT 'Packets in no record, by cause',
    not_metered_octets      Map(LowCardinality(String), UInt64) COMMENT 'Layer-3 octets in no record, by cause',
    late_packets            UInt64 COMMENT 'Packets older than the open interval, counted in it',
    published_batches       UInt64 COMMENT 'Batches the agent says it published',
    published_records       UInt64 COMMENT 'Records the agent says it published',
    received_batches        UInt64 COMMENT 'Distinct batches that Flink received',
    received_records        UInt64 COMMENT 'Records in them',
    received_packets        UInt64 COMMENT 'Packets in them',
    received_octets         UInt64 COMMENT 'Layer-3 octets in them',
    repeated_batches        UInt64 COMMENT 'Batches that came again and were dropped',
    missing_batches         UInt64 COMMENT 'Batches that did not come',
    missing_sequences       Array(UInt64) COMMENT 'Their sequence numbers, the first 100',
    gap_packets             UInt64 COMMENT 'After a restart: packets that passed the interface while no agent ran',
    interface_packets       UInt64 COMMENT 'Packets by the interface''s own counters in this interval, received and sent (worker 0 only)',
    interface_octets        UInt64 COMMENT 'Layer-2 octets by the interface''s own counters in this interval (worker 0 only)',
    clock_offset_us         Nullable(Int64) COMMENT 'Offset of the probe''s clock in microseconds, where known',
    agent_version           LowCardinality(String) COMMENT 'Version of the agent',
    source                  LowCardinality(String) COMMENT 'What the agent captured: af_packet:eth0, file:/path',
    time_shift_ms           Int64 COMMENT 'Replays: how far packet times were moved, milliseconds',
    cpu_permille            UInt32 COMMENT 'CPU time of the worker over the interval, in thousandths',
    rss_octets              UInt64 COMMENT 'Resident memory of the agent',
    close_stall_us          UInt64 COMMENT 'How long closing the interval kept the worker from its packets, microseconds',
    updated_at              DateTime64(3, 'UTC') COMMENT 'When Flink wrote this version'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(ts)
ORDER BY (probe, worker, ts)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'The ledger: for each probe, worker and interval, what was on the wire and where it went; read v_ledger';
