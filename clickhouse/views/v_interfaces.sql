-- Counters of an exporter's interface beside the sums of its sampled flows. A router reports a flow at the interface
-- where its packets came in (input_interface); its replies came in at the interface where it left.
--
-- A sample counts the packets since the previous one, up to an hour earlier. The view spreads it evenly, with exact
-- remainders, over all five-minute periods in between, as it does with flows. `back` is the number of periods before
-- the sample's end; each has its own branch, so that a condition on ts reaches the table.
CREATE OR REPLACE VIEW v_interfaces
(
    ts DateTime('UTC') COMMENT 'Start of the five minutes',
    exporter String COMMENT 'Address of the device',
    interface UInt32 COMMENT 'Number of the interface on the device (ifIndex)',
    name String COMMENT 'Name of the interface, empty where the device gave none',
    description String COMMENT 'Description by the operators',
    LIKE interface_counters (domain),
    LIKE interface_counters (speed, status),
    counted_s UInt32 COMMENT 'Seconds of these five minutes that are covered by samples of the interface''s counters, 0 if the device sent none',
    LIKE interface_counters (in_octets, in_packets, in_errors, in_discards, out_octets, out_packets, out_errors, out_discards),
    flow_in_octets UInt64 COMMENT 'Layer-3 octets of flows that came in through the interface, scaled by their sampling rates',
    flow_in_packets UInt64 COMMENT 'Packets of those flows',
    flow_out_octets UInt64 COMMENT 'Layer-3 octets of flows that left through the interface, scaled by their sampling rates',
    flow_out_packets UInt64 COMMENT 'Packets of those flows',
    in_difference Nullable(Float64) COMMENT 'Relative difference of the flows'' packets from the interface''s packets: -0.1 means that a tenth is missing; NULL if the interface counted none',
    out_difference Nullable(Float64) COMMENT 'The same for packets that left'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    ts, replaceOne(toString(exporter_addr), '::ffff:', '') AS exporter, interface, n.name AS name, n.description AS description,
    i.domain AS domain,
    i.speed AS speed, i.status AS status, toUInt32(i.counted_ms / 1000) AS counted_s,
    i.counted[1] AS in_octets, i.counted[2] AS in_packets, i.counted[3] AS in_errors, i.counted[4] AS in_discards,
    i.counted[5] AS out_octets, i.counted[6] AS out_packets, i.counted[7] AS out_errors, i.counted[8] AS out_discards,
    i.flows[1] AS flow_in_octets, i.flows[2] AS flow_in_packets, i.flows[3] AS flow_out_octets, i.flows[4] AS flow_out_packets,
    if(in_packets = 0, NULL, flow_in_packets / in_packets - 1) AS in_difference,
    if(out_packets = 0, NULL, flow_out_packets / out_packets - 1) AS out_difference
FROM
(
    -- If several collectors receive a device's counters, or several sub-agents of the device count the same interface, the view uses those of the
    -- collector and sub-agent with the most.
    SELECT ts, exporter_addr, interface, argMax(p.domain, p.ms) AS domain, max(p.speed) AS speed, groupBitOr(p.status) AS status, max(p.ms) AS counted_ms,
        argMax(p.counts, p.ms) AS counted, argMax(p.flow_counts, p.flow_counts[2] + p.flow_counts[4]) AS flows
    FROM
    (
        SELECT ts, exporter_addr, interface, probe, domain, max(r.speed) AS speed, groupBitOr(r.status) AS status, sum(r.ms) AS ms,
            sumForEach(r.counts) AS counts, sumForEach(r.flow_counts) AS flow_counts
        FROM
        (
            SELECT
                toStartOfFiveMinutes(c.ts) - 300 * back AS ts, exporter_addr, interface, probe, domain, speed, status,
                -- The part of the sample's time span that falls into these five minutes lies between `earlier` and
                -- `later` milliseconds before the sample.
                least(greatest(span_ms, 1), if(back = 0, 0, 1000 * (toUnixTimestamp(c.ts) % 300) + 300000 * (back - 1))) AS later,
                least(greatest(span_ms, 1), 1000 * (toUnixTimestamp(c.ts) % 300) + 300000 * back) AS earlier,
                toUInt64(earlier - later) AS ms,
                arrayMap(
                    n -> toUInt64(intDiv(toUInt128(n) * earlier, greatest(span_ms, 1)) - intDiv(toUInt128(n) * later, greatest(span_ms, 1))),
                    [in_octets, in_packets, in_errors, in_discards, out_octets, out_packets, out_errors, out_discards]
                ) AS counts,
                CAST([0, 0, 0, 0], 'Array(UInt64)') AS flow_counts
            FROM
            (
                FOR EACH n FROM 0 TO 12: SELECT *, n AS back FROM interface_counters WHERE greatest(span_ms, 1) > 300000 * (n - 1)
            ) AS c
            WHERE earlier > later
            UNION ALL
            SELECT toStartOfFiveMinutes(ts), exporter_addr, way.1, probe, 0, 0, 0, 0, 0, 0, CAST([0, 0, 0, 0, 0, 0, 0, 0], 'Array(UInt64)'), way.2
            FROM flows
            -- Octets and packets in each direction, by interface.
            ARRAY JOIN [
                (input_interface, [fwd_octets, fwd_packets, rev_octets, rev_packets]),
                (output_interface, [rev_octets, rev_packets, fwd_octets, fwd_packets])
            ] AS way
            WHERE exporter_addr != toIPv6('::') AND way.1 != 0
        ) AS r
        GROUP BY ts, exporter_addr, interface, probe, domain
    ) AS p
    GROUP BY ts, exporter_addr, interface
) AS i
LEFT JOIN (SELECT exporter_addr, number, name, description FROM exporter_names FINAL WHERE kind = 'interface') AS n
    ON n.exporter_addr = i.exporter_addr AND n.number = i.interface
COMMENT 'Interfaces of exporters in five minutes: their counters beside the sums of their sampled flows; restrict ts to a range';
