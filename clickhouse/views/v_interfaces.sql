-- What an exporter's interface counted beside what its sampled flows add up to. A router sends flows where the packets came in
-- (input_interface); the answer of a flow came in where it left.
CREATE OR REPLACE VIEW v_interfaces
(
    ts DateTime('UTC') COMMENT 'Start of the five minutes',
    exporter String COMMENT 'Address of the device',
    interface UInt32 COMMENT 'Number of the interface on the device (ifIndex)',
    name String COMMENT 'Name of the interface, empty where the device gave none',
    description String COMMENT 'What operators wrote about it',
    LIKE interface_counters (speed, status),
    counted_s UInt32 COMMENT 'Seconds that the interface''s counters are of, 0 where it sent none',
    LIKE interface_counters (in_octets, in_packets, in_errors, in_discards, out_octets, out_packets, out_errors, out_discards),
    flow_in_octets UInt64 COMMENT 'Layer-3 octets that flows brought in by it, scaled by their sampling rates',
    flow_in_packets UInt64 COMMENT 'Packets of those flows',
    flow_out_octets UInt64 COMMENT 'Layer-3 octets that flows took out by it, likewise',
    flow_out_packets UInt64 COMMENT 'Packets of those flows',
    in_difference Nullable(Float64) COMMENT 'How much the flows'' packets differ from those counted, as a part of these: -0.1 is a tenth too few; NULL where nothing was counted',
    out_difference Nullable(Float64) COMMENT 'The same of packets that left'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    ts, replaceOne(toString(exporter_addr), '::ffff:', '') AS exporter, interface, n.name AS name, n.description AS description,
    max(s.speed) AS speed, toUInt8(groupBitOr(s.status)) AS status, toUInt32(sum(s.span_ms) / 1000) AS counted_s,
    sum(s.in_octets) AS in_octets, sum(s.in_packets) AS in_packets, sum(s.in_errors) AS in_errors, sum(s.in_discards) AS in_discards,
    sum(s.out_octets) AS out_octets, sum(s.out_packets) AS out_packets, sum(s.out_errors) AS out_errors, sum(s.out_discards) AS out_discards,
    sum(s.flow_in[1]) AS flow_in_octets, sum(s.flow_in[2]) AS flow_in_packets,
    sum(s.flow_out[1]) AS flow_out_octets, sum(s.flow_out[2]) AS flow_out_packets,
    if(in_packets = 0, NULL, flow_in_packets / in_packets - 1) AS in_difference,
    if(out_packets = 0, NULL, flow_out_packets / out_packets - 1) AS out_difference
FROM
(
    SELECT toStartOfFiveMinutes(ts) AS ts, exporter_addr, interface, speed, status, span_ms, in_octets, in_packets, in_errors, in_discards,
        out_octets, out_packets, out_errors, out_discards,
        CAST([0, 0], 'Array(UInt64)') AS flow_in, CAST([0, 0], 'Array(UInt64)') AS flow_out
    FROM interface_counters
    UNION ALL
    SELECT toStartOfFiveMinutes(ts), exporter_addr, way.1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, way.2, way.3
    FROM flows
    -- By interface: octets and packets in, and out.
    ARRAY JOIN [
        (input_interface, [fwd_octets, fwd_packets], [rev_octets, rev_packets]),
        (output_interface, [rev_octets, rev_packets], [fwd_octets, fwd_packets])
    ] AS way
    WHERE exporter_addr != toIPv6('::') AND way.1 != 0
) AS s
LEFT JOIN (SELECT exporter_addr, number, name, description FROM exporter_names FINAL WHERE kind = 'interface') AS n
    ON n.exporter_addr = s.exporter_addr AND n.number = s.interface
GROUP BY ts, exporter_addr, interface, name, description
COMMENT 'Interfaces of exporters in five minutes: what their counters said beside what their sampled flows add up to; give a range of ts';
