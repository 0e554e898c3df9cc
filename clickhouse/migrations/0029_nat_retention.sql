-- Retention by law counts from a time that a collector's clock cannot move: a partition is a day of kept_from, which the jobs
-- set when they make the rows. An index finds the destinations that connections from outside asked for (`weir nat`), and the
-- ledger counts what is stored by a projection.
--
-- The partitions of a table cannot be changed: it is made anew, filled and exchanged. Stop the jobs in order before it, for the
-- tokens of blocks that were stored already are not carried over. What is stored keeps its age, but none is of the future.

ALTER TABLE nat_events
    ADD COLUMN IF NOT EXISTS kept_from DateTime('UTC') DEFAULT least(ts, now()) COMMENT 'From when on its age counts (storage.nat_days): ts, but not after the moment of storing, nor more than three days before it, whatever the collector''s clock says' CODEC(GCD, T64, ZSTD(1));

DROP TABLE IF EXISTS nat_events_anew SYNC;

CREATE TABLE nat_events_anew AS nat_events
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(kept_from)
ORDER BY (post_src_addr, port_block_end > 0, post_src_port, event_at)
SETTINGS non_replicated_deduplication_window = 10000, lightweight_mutation_projection_mode = 'rebuild'
COMMENT 'Events of address translation and firewalls: who had an address and port at a moment. `weir nat` asks it';

ALTER TABLE nat_events_anew
    MODIFY COLUMN kept_from DateTime('UTC') DEFAULT greatest(least(ts, now()), now() - 259200) COMMENT 'From when on its age counts (storage.nat_days): ts, but not after the moment of storing, nor more than three days before it, whatever the collector''s clock says' CODEC(GCD, T64, ZSTD(1)),
    ADD INDEX IF NOT EXISTS dst_addr dst_addr TYPE bloom_filter(0.01) GRANULARITY 4,
    -- What the ledger calls stored, as in flows.
    ADD PROJECTION IF NOT EXISTS stored (SELECT probe, worker, ts, count(), groupUniqArray((epoch, sequence)) GROUP BY probe, worker, ts);

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
