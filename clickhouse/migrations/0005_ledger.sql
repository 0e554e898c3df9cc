-- Where every packet went. One row for each enrolled probe, worker and interval, whether or not anything came; the jobs
-- write it again, with a higher version, when they know more. The stored records are not in here: v_ledger counts them in
-- flows, nat_events and interface_counters themselves, by their projection `stored`.
CREATE TABLE IF NOT EXISTS ledger
(
    ts                             DateTime('UTC') COMMENT 'Start of the interval' CODEC(Delta, ZSTD(1)),
    interval_ms                    UInt32 COMMENT 'Length of the interval in milliseconds',
    probe                          LowCardinality(String) COMMENT 'Name of the probe',
    worker                         UInt16 COMMENT 'Worker of the probe, from 0',
    version                        UInt32 COMMENT 'Number of times that the row was written; the row with the highest number counts',
    state                          Enum8('closed' = 1, 'batches_missing' = 2, 'closing_missing' = 3, 'missing' = 4, 'stopped' = 5) COMMENT 'closed: all batches and the closing record arrived. batches_missing: some batches did not arrive. closing_missing: batches arrived, but not the closing record (the agent was killed, or the record was lost). missing: nothing arrived. stopped: nothing arrived, and the agent had announced its stop',
    epoch                          UInt64 COMMENT 'Newest run of the agent in this interval, microseconds from 1970 to its start; 0 if nothing arrived',
    epochs                         UInt16 COMMENT 'Number of runs of the agent in this interval, more than 1 after a restart; the sums cover all of them',
    -- Counts of the agent.
    on_interface_packets           UInt64 COMMENT 'Packets that the interface delivered to the worker, dropped ones included',
    captured_packets               UInt64 COMMENT 'Packets that the worker captured',
    captured_octets                UInt64 COMMENT 'Layer-3 octets of the packets that the worker captured',
    dropped                        Map(LowCardinality(String), UInt64) COMMENT 'Packets dropped before the worker, by cause',
    in_ring_packets                UInt64 COMMENT 'Packets that waited in the ring at the close',
    carried_in_packets             UInt64 COMMENT 'Packets carried in from earlier intervals',
    carried_in_octets              UInt64 COMMENT 'Layer-3 octets carried in from earlier intervals',
    carried_out_packets            UInt64 COMMENT 'Packets carried out to later intervals',
    carried_out_octets             UInt64 COMMENT 'Layer-3 octets carried out to later intervals',
    flow_packets                   UInt64 COMMENT 'Packets in published flow records. If the closing record is missing: the difference of the sums over the epoch in the closing records around it (of several lost in a row, the last one gets the packets that cannot be assigned to one of them); if no later closing record has arrived, the packets received',
    flow_octets                    UInt64 COMMENT 'Layer-3 octets in published flow records',
    overflow_packets               UInt64 COMMENT 'Packets in published overflow records',
    overflow_octets                UInt64 COMMENT 'Layer-3 octets in published overflow records',
    not_metered_packets            Map(LowCardinality(String), UInt64) COMMENT 'Packets in no record, by cause',
    not_metered_octets             Map(LowCardinality(String), UInt64) COMMENT 'Layer-3 octets in no record, by cause',
    late_packets                   UInt64 COMMENT 'Packets older than the open interval, counted in it',
    published_batches              UInt64 COMMENT 'Batches that the agent published, by its own count',
    published_records              UInt64 COMMENT 'Records that the agent published, by its own count',
    -- Counts of the jobs.
    received_batches               UInt64 COMMENT 'Distinct batches that Flink received',
    received_records               UInt64 COMMENT 'Records in the received batches',
    received_packets               UInt64 COMMENT 'Packets in the received batches',
    received_octets                UInt64 COMMENT 'Layer-3 octets in the received batches',
    repeated_batches               UInt64 COMMENT 'Batches that arrived again and were dropped',
    missing_batches                UInt64 COMMENT 'Batches that did not arrive',
    missing_sequences              Array(UInt64) COMMENT 'Sequence numbers of the missing batches, the first 100',
    -- A gap after a restart, the counters of the interface, the clock and the load.
    gap_packets                    UInt64 COMMENT 'After a restart: packets that passed the interface while no agent ran',
    interface_packets              UInt64 COMMENT 'Packets by the interface''s own counters in this interval, received and sent (worker 0 only)',
    interface_octets               UInt64 COMMENT 'Layer-2 octets by the interface''s own counters in this interval (worker 0 only)',
    clock_offset_us                Nullable(Int64) COMMENT 'Offset of the probe''s clock in microseconds, if known',
    agent_version                  LowCardinality(String) COMMENT 'Version of the agent',
    source                         LowCardinality(String) COMMENT 'Capture source of the agent: af_packet:eth0, file:/path',
    time_shift_ms                  Int64 COMMENT 'Replays: shift of the packet times, milliseconds',
    cpu_permille                   UInt32 COMMENT 'CPU time of the worker over the interval, in thousandths of one core',
    rss_octets                     UInt64 COMMENT 'Resident memory of the agent in octets',
    close_stall_us                 UInt64 COMMENT 'How long closing the interval kept the worker from its packets, microseconds',
    updated_at                     DateTime64(3, 'UTC') COMMENT 'When Flink wrote this version',
    -- Collectors: received, lost, unreadable and unscaled records of each exporter.
    exporter_records               Map(LowCardinality(String), UInt64) COMMENT 'Collectors: records received from each exporter, by protocol, address and observation domain' CODEC(ZSTD(1)),
    exporter_lost                  Map(LowCardinality(String), UInt64) COMMENT 'Collectors: losses of each exporter by its sequence numbers, in the unit that the name ends with: records, datagrams, samples or messages' CODEC(ZSTD(1)),
    exporter_without_sampling_rate Map(LowCardinality(String), UInt64) COMMENT 'Collectors: records of exporters without a known sampling rate; they are counted as exported' CODEC(ZSTD(1)),
    exporter_refused               Map(LowCardinality(String), UInt64) COMMENT 'Collectors: unreadable or corrected data of each exporter, by the cause that the name ends with' CODEC(ZSTD(1)),
    exporter_sampling              Map(LowCardinality(String), UInt64) COMMENT 'Collectors: records of exporters whose sampling rate is unknown, by the state that the name ends with: expected (announced, but not yet received), not_understood (announced in a form that gives no rate)' CODEC(ZSTD(1)),
    exporter_reports               Map(LowCardinality(String), UInt64) COMMENT 'Collectors: reports of each exporter other than flow records, by the table that the name ends with: nat_events, interface_counters, names' CODEC(ZSTD(1)),
    -- Collectors: reports beside flow records, as published and as received.
    published_nat_events           UInt64 COMMENT 'Events of translators and firewalls in the published batches, as the collector reports them; 0 from a collector older than this column' CODEC(T64, ZSTD(1)),
    published_interface_counters   UInt64 COMMENT 'Samples of interface counters in the published batches, as the collector reports them; 0 from a collector older than this column' CODEC(T64, ZSTD(1)),
    published_names                UInt64 COMMENT 'Names of interfaces and VRFs in the published batches, as the collector reports them; 0 from a collector older than this column' CODEC(T64, ZSTD(1)),
    received_nat_events            UInt64 COMMENT 'Events of translators and firewalls in the received batches' CODEC(T64, ZSTD(1)),
    received_interface_counters    UInt64 COMMENT 'Samples of interface counters in the received batches' CODEC(T64, ZSTD(1)),
    received_names                 UInt64 COMMENT 'Names of interfaces and VRFs in the received batches' CODEC(T64, ZSTD(1))
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(ts)
ORDER BY (probe, worker, ts)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'The ledger: for each probe, worker and interval, the packets on the wire and where they went; read v_ledger';
