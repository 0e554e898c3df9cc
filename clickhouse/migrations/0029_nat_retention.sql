-- Retention by law counts from a time that a collector's clock cannot move: a partition is a day of kept_from, which the jobs
-- set when they make the rows. An index finds the destinations that connections from outside asked for (`weir nat`), and the
-- ledger counts what is stored by a projection.
--
-- The partitions of a table cannot be changed: it is made anew, filled and exchanged. Stop the jobs in order before it, for the
-- tokens of blocks that were stored already are not carried over. What is stored keeps its age, but none is of the future.

ALTER TABLE nat_events
    ADD COLUMN IF NOT EXISTS kept_from DateTime('UTC') DEFAULT least(ts, now()) COMMENT 'From when on its age counts' CODEC(GCD, T64, ZSTD(1));

DROP TABLE IF EXISTS nat_events_anew SYNC;

CREATE TABLE nat_events_anew
(
    ts DateTime('UTC') COMMENT 'Start of the interval that it came in' CODEC(GCD, T64, ZSTD(1)),
    probe LowCardinality(String) COMMENT 'Name of the probe that reported it',
    worker UInt16 COMMENT 'Worker of the probe that reported it, from 0' CODEC(T64, ZSTD(1)),
    epoch UInt64 COMMENT 'Run of the agent: microseconds from 1970 to its start' CODEC(ZSTD(1)),
    sequence UInt64 COMMENT 'Batch that brought the record, numbered within probe, worker and epoch' CODEC(T64, ZSTD(1)),
    interval_ms UInt32 COMMENT 'Length of the interval in milliseconds' CODEC(ZSTD(1)),
    event_at DateTime64(3, 'UTC') COMMENT 'When it happened, by the exporter' CODEC(Delta, ZSTD(1)),
    event Enum8('unknown' = 0, 'create' = 1, 'delete' = 2, 'address_bind' = 3, 'address_unbind' = 4, 'port_block_allocate' = 5, 'port_block_free' = 6, 'deny' = 7, 'exhausted' = 8, 'other' = 9) COMMENT 'What happened: a translation or connection began or ended, an address or a block of ports was bound to a subscriber or freed, a firewall refused, no address, port or quota was left' CODEC(ZSTD(1)),
    nat_event UInt8 COMMENT 'IE 230 natEvent as it came (RFC 8158), 0 for none' CODEC(ZSTD(1)),
    firewall_event UInt8 COMMENT 'IE 233 firewallEvent as it came, 0 for none' CODEC(ZSTD(1)),
    exporter_addr IPv6 COMMENT 'Device that reported it' CODEC(ZSTD(1)),
    protocol UInt8 COMMENT 'IP protocol number, 0 where the event is of all' CODEC(ZSTD(1)),
    src_addr IPv6 COMMENT 'Source before translation: the subscriber' CODEC(ZSTD(1)),
    src_port UInt16 COMMENT 'Port of the source before translation' CODEC(ZSTD(1)),
    dst_addr IPv6 COMMENT 'Destination before translation, :: unknown' CODEC(ZSTD(1)),
    dst_port UInt16 COMMENT 'Port of the destination before translation' CODEC(ZSTD(1)),
    post_src_addr IPv6 COMMENT 'Source after translation: the address that others saw; the source itself where it was not translated' CODEC(ZSTD(1)),
    post_src_port UInt16 COMMENT 'Port of the source after translation; of a block of ports the first one' CODEC(T64, ZSTD(1)),
    post_dst_addr IPv6 COMMENT 'Destination after translation, :: unknown' CODEC(ZSTD(1)),
    post_dst_port UInt16 COMMENT 'Port of the destination after translation' CODEC(ZSTD(1)),
    port_block_end UInt16 COMMENT 'Last port of the block of ports, 0 where the event is of one port' CODEC(ZSTD(1)),
    port_block_step UInt16 COMMENT 'Every so many ports from the first to the last one is of the block; 0 and 1: all' CODEC(ZSTD(1)),
    ingress_vrf UInt32 COMMENT 'VRF of the source, by its number on the exporter; 0 the global one, or unknown' CODEC(ZSTD(1)),
    egress_vrf UInt32 COMMENT 'VRF after translation, likewise' CODEC(ZSTD(1)),
    connection UInt64 COMMENT 'Number of the connection on the exporter, 0 for none' CODEC(ZSTD(1)),
    user_name String COMMENT 'Subscriber as the device knows it; empty unknown' CODEC(ZSTD(3)),
    kept_from DateTime('UTC') DEFAULT greatest(least(ts, now()), now() - 259200) COMMENT 'From when on its age counts (storage.nat_days): ts, but not after the moment of storing, nor more than three days before it, whatever the collector''s clock says' CODEC(GCD, T64, ZSTD(1)),
    INDEX src_addr src_addr TYPE bloom_filter(0.01) GRANULARITY 4,
    INDEX dst_addr dst_addr TYPE bloom_filter(0.01) GRANULARITY 4,
    -- What the ledger calls stored, as in flows.
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
COMMENT 'Events of address translation and firewalls: who had an address and port at a moment. `weir nat` asks it';

INSERT INTO nat_events_anew
(
    ts, probe, worker, epoch, sequence, interval_ms, event_at, event, nat_event, firewall_event, exporter_addr,
    protocol, src_addr, src_port, dst_addr, dst_port, post_src_addr, post_src_port, post_dst_addr, post_dst_port,
    port_block_end, port_block_step, ingress_vrf, egress_vrf, connection, user_name, kept_from
)
SELECT
    ts, probe, worker, epoch, sequence, interval_ms, event_at, event, nat_event, firewall_event, exporter_addr,
    protocol, src_addr, src_port, dst_addr, dst_port, post_src_addr, post_src_port, post_dst_addr, post_dst_port,
    port_block_end, port_block_step, ingress_vrf, egress_vrf, connection, user_name, kept_from
FROM nat_events
SETTINGS max_partitions_per_insert_block = 0;

EXCHANGE TABLES nat_events AND nat_events_anew;

DROP TABLE nat_events_anew SYNC;
