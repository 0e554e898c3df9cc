-- Reports of routers beside flow records: translations of addresses, counters of interfaces, and names.

-- Retention by law counts from a time that a collector's clock cannot move: a partition is a day of kept_from, which the jobs
-- set when they make the rows.
CREATE TABLE IF NOT EXISTS nat_events
(
    ts              DateTime('UTC') COMMENT 'Start of the interval in which the report arrived' CODEC(GCD, T64, ZSTD(1)),
    probe           LowCardinality(String) COMMENT 'Name of the collector that received the event',
    worker          UInt16 COMMENT 'Worker of the collector that received the event, from 0' CODEC(T64, ZSTD(1)),
    epoch           UInt64 COMMENT 'Run of the agent: microseconds from 1970 to its start' CODEC(ZSTD(1)),
    sequence        UInt64 COMMENT 'Batch that brought the record, numbered within probe, worker and epoch' CODEC(T64, ZSTD(1)),
    interval_ms     UInt32 COMMENT 'Length of the interval in milliseconds' CODEC(ZSTD(1)),
    event_at        DateTime64(3, 'UTC') COMMENT 'Time of the event by the exporter''s clock' CODEC(Delta, ZSTD(1)),
    event           Enum8('unknown' = 0, 'create' = 1, 'delete' = 2, 'address_bind' = 3, 'address_unbind' = 4, 'port_block_allocate' = 5, 'port_block_free' = 6, 'deny' = 7, 'exhausted' = 8, 'other' = 9) COMMENT 'Kind of event: a translation or connection began or ended, an address or a block of ports was bound to a subscriber or freed, a firewall refused a connection, or no address, port or quota was left' CODEC(ZSTD(1)),
    nat_event       UInt8 COMMENT 'IE 230 natEvent as the exporter stated it (RFC 8158), 0 for none' CODEC(ZSTD(1)),
    firewall_event  UInt8 COMMENT 'IE 233 firewallEvent as the exporter stated it, 0 for none' CODEC(ZSTD(1)),
    exporter_addr   IPv6 COMMENT 'Device that reported the event' CODEC(ZSTD(1)),
    protocol        UInt8 COMMENT 'IP protocol number, 0 if the event applies to all protocols' CODEC(ZSTD(1)),
    src_addr        IPv6 COMMENT 'Source before translation: the subscriber' CODEC(ZSTD(1)),
    src_port        UInt16 COMMENT 'Port of the source before translation' CODEC(ZSTD(1)),
    dst_addr        IPv6 COMMENT 'Destination before translation, :: unknown' CODEC(ZSTD(1)),
    dst_port        UInt16 COMMENT 'Port of the destination before translation' CODEC(ZSTD(1)),
    post_src_addr   IPv6 COMMENT 'Source after translation: the address that other hosts see; the source itself if it was not translated' CODEC(ZSTD(1)),
    post_src_port   UInt16 COMMENT 'Port of the source after translation; for a block of ports, the first port' CODEC(T64, ZSTD(1)),
    post_dst_addr   IPv6 COMMENT 'Destination after translation, :: unknown' CODEC(ZSTD(1)),
    post_dst_port   UInt16 COMMENT 'Port of the destination after translation' CODEC(ZSTD(1)),
    port_block_end  UInt16 COMMENT 'Last port of the block of ports, 0 if the event is about a single port' CODEC(ZSTD(1)),
    port_block_step UInt16 COMMENT 'Distance between the ports of the block, from the first to the last; 0 and 1: every port belongs to it' CODEC(ZSTD(1)),
    ingress_vrf     UInt32 COMMENT 'VRF of the source, by its number on the exporter; 0: the global one, or unknown' CODEC(ZSTD(1)),
    egress_vrf      UInt32 COMMENT 'VRF after translation, by its number on the exporter; 0: the global one, or unknown' CODEC(ZSTD(1)),
    connection      UInt64 COMMENT 'Number of the connection on the exporter, 0 for none' CODEC(ZSTD(1)),
    user_name       String COMMENT 'Name of the subscriber on the device; empty if unknown' CODEC(ZSTD(3)),
    kept_from       DateTime('UTC') DEFAULT greatest(least(ts, now()), now() - 259200) COMMENT 'Time from which the event''s age counts (storage.nat_days): ts, but not after the time of storing, nor more than three days before it, whatever the collector''s clock says' CODEC(GCD, T64, ZSTD(1)),
    -- The order finds who had an address outside; these indices find the addresses that one subscriber had, and the destinations
    -- that connections from outside asked for (`weir nat`).
    INDEX src_addr src_addr TYPE bloom_filter(0.01) GRANULARITY 4,
    INDEX dst_addr dst_addr TYPE bloom_filter(0.01) GRANULARITY 4,
    -- The "stored" of the ledger, as in flows.
    PROJECTION stored
    (
        SELECT probe, worker, ts, count(), groupUniqArray((epoch, sequence))
        GROUP BY probe, worker, ts
    )
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(kept_from)
ORDER BY (post_src_addr, port_block_end > 0, post_src_port, event_at)
SETTINGS non_replicated_deduplication_window = 10000, lightweight_mutation_projection_mode = 'rebuild'
COMMENT 'Events of address translation and firewalls: the subscriber who had an address and port at a given time. `weir nat` queries it';

CREATE TABLE IF NOT EXISTS interface_counters
(
    ts            DateTime('UTC') COMMENT 'Start of the interval in which the report arrived' CODEC(GCD, T64, ZSTD(1)),
    probe         LowCardinality(String) COMMENT 'Name of the collector that read the counters',
    worker        UInt16 COMMENT 'Worker of the collector that read the counters, from 0' CODEC(T64, ZSTD(1)),
    epoch         UInt64 COMMENT 'Run of the agent: microseconds from 1970 to its start' CODEC(ZSTD(1)),
    sequence      UInt64 COMMENT 'Batch that brought the record, numbered within probe, worker and epoch' CODEC(T64, ZSTD(1)),
    interval_ms   UInt32 COMMENT 'Length of the interval in milliseconds' CODEC(ZSTD(1)),
    exporter_addr IPv6 COMMENT 'Device that has the interface' CODEC(ZSTD(1)),
    domain        UInt32 COMMENT 'Sub-agent of the device (sFlow) that counted; 0 for a device without sub-agents' CODEC(ZSTD(1)),
    interface     UInt32 COMMENT 'Number of the interface on the device (ifIndex)' CODEC(ZSTD(1)),
    speed         UInt64 COMMENT 'Speed of the interface in bits per second, 0 unknown' CODEC(ZSTD(1)),
    status        UInt8 COMMENT '1: administratively up; 2: operationally up; 3: both' CODEC(ZSTD(1)),
    span_ms       UInt32 COMMENT 'Time that the counts cover, since the previous sample, in milliseconds' CODEC(T64, ZSTD(1)),
    in_octets     UInt64 COMMENT 'Octets received, link layer included' CODEC(T64, ZSTD(1)),
    in_packets    UInt64 COMMENT 'Packets received' CODEC(T64, ZSTD(1)),
    in_errors     UInt64 COMMENT 'Packets received with errors' CODEC(T64, ZSTD(1)),
    in_discards   UInt64 COMMENT 'Packets received that were discarded without an error' CODEC(T64, ZSTD(1)),
    out_octets    UInt64 COMMENT 'Octets sent, link layer included' CODEC(T64, ZSTD(1)),
    out_packets   UInt64 COMMENT 'Packets sent' CODEC(T64, ZSTD(1)),
    out_errors    UInt64 COMMENT 'Packets that could not be sent because of errors' CODEC(T64, ZSTD(1)),
    out_discards  UInt64 COMMENT 'Packets to be sent that were discarded without an error' CODEC(T64, ZSTD(1)),
    -- The "stored" of the ledger, as in flows.
    PROJECTION stored
    (
        SELECT probe, worker, ts, count(), groupUniqArray((epoch, sequence))
        GROUP BY probe, worker, ts
    )
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(ts)
ORDER BY (exporter_addr, interface, ts)
SETTINGS non_replicated_deduplication_window = 10000, lightweight_mutation_projection_mode = 'rebuild'
COMMENT 'Increases of the counters of exporters'' interfaces; v_interfaces shows them beside the sampled flows of the same interface';

CREATE TABLE IF NOT EXISTS exporter_names
(
    ts            DateTime('UTC') COMMENT 'Start of the interval in which the report arrived' CODEC(GCD, T64, ZSTD(1)),
    probe         LowCardinality(String) COMMENT 'Name of the collector that received the name',
    worker        UInt16 COMMENT 'Worker of the collector that received the name, from 0' CODEC(T64, ZSTD(1)),
    epoch         UInt64 COMMENT 'Run of the agent: microseconds from 1970 to its start' CODEC(ZSTD(1)),
    sequence      UInt64 COMMENT 'Batch that brought the record, numbered within probe, worker and epoch' CODEC(T64, ZSTD(1)),
    interval_ms   UInt32 COMMENT 'Length of the interval in milliseconds' CODEC(ZSTD(1)),
    exporter_addr IPv6 COMMENT 'Device that gave the name' CODEC(ZSTD(1)),
    kind          Enum8('unknown' = 0, 'interface' = 1, 'vrf' = 2) COMMENT 'Kind of the named thing: an interface or a VRF' CODEC(ZSTD(1)),
    number        UInt32 COMMENT 'Number of the interface or VRF on the device' CODEC(ZSTD(1)),
    name          String COMMENT 'Name of the interface or VRF' CODEC(ZSTD(1)),
    description   String COMMENT 'Description that operators gave the interface or VRF' CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toYYYYMM(ts)
ORDER BY (exporter_addr, kind, number)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Names that exporters gave to their interfaces and VRFs; the newest counts';
