-- The ports of services of each day, all of them, so that the largest by octets, packets or flows are an ORDER BY away. There
-- are as few as there are ports, and the view that fills the table adds up the hourly rows of each block first. Days before
-- this migration have none.

CREATE TABLE IF NOT EXISTS ports_daily
(
    day        Date COMMENT 'Day, UTC' CODEC(Delta, ZSTD(1)),
    probe      LowCardinality(String) COMMENT 'Name of the probe that saw the traffic' CODEC(ZSTD(1)),
    protocol   UInt8 COMMENT 'IP protocol number: 6 TCP, 17 UDP' CODEC(ZSTD(1)),
    port       UInt16 COMMENT 'Port of the service; if it is unknown, of the destination; 0 for ports of 32768 and more that are no service' CODEC(ZSTD(1)),
    duplicate  Bool COMMENT 'True if records of another probe count instead: sums over several probes leave the row out, sums of one probe include it' CODEC(ZSTD(1)),
    packets    SimpleAggregateFunction(sum, UInt64) COMMENT 'Packets, both directions' CODEC(T64, ZSTD(1)),
    octets     SimpleAggregateFunction(sum, UInt64) COMMENT 'Layer-3 octets, both directions' CODEC(T64, ZSTD(1)),
    flows      SimpleAggregateFunction(sum, UInt64) COMMENT 'Flows that began on the day' CODEC(T64, ZSTD(1)),
    unanswered SimpleAggregateFunction(sum, UInt64) COMMENT 'Packets of unanswered connection attempts to the port' CODEC(T64, ZSTD(1))
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(day)
ORDER BY (day, protocol, port, probe, duplicate)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Traffic of each TCP and UDP port on each day, as each probe saw it; read v_ports_daily';

CREATE MATERIALIZED VIEW IF NOT EXISTS fill_ports_daily TO ports_daily
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    toDate(ts) AS day, probe, protocol, port, duplicate,
    sum(fwd_packets + rev_packets) AS packets, sum(fwd_octets + rev_octets) AS octets, sum(h.flows) AS flows,
    sumIf(fwd_packets, folded) AS unanswered
FROM flows_hourly AS h
WHERE protocol IN (6, 17)
GROUP BY day, probe, protocol, port, duplicate
COMMENT 'Fills ports_daily from every block that is written to flows_hourly';
