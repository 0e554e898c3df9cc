-- mixes contain shares of AS and of applications separately; only the records show the applications of an AS.
CREATE OR REPLACE VIEW v_as_applications
(
    ts DateTime('UTC') COMMENT 'Start of the interval',
    probe LowCardinality(String) COMMENT 'Name of the probe that saw the flow',
    direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Direction in which the flow was opened, seen from the nation',
    as_number UInt32 COMMENT 'Autonomous system of the outside end; if there is none, of the source; 0 unknown',
    as_name String COMMENT 'Organisation that runs the autonomous system',
    application String COMMENT 'Application by nDPI, else the registered service; unknown if neither is known',
    packets UInt64 COMMENT 'Packets, both directions',
    octets UInt64 COMMENT 'Layer-3 octets, both directions',
    LIKE v_records (record_kind, flow, place)
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    ts, probe, nation_direction AS direction,
    if(nation_direction = 'out', dst_as, src_as) AS as_number, if(nation_direction = 'out', dst_as_name, src_as_name) AS as_name,
    coalesce(nullIf(r.application, ''), nullIf(r.service, ''), 'unknown') AS application,
    fwd_packets + rev_packets AS packets, fwd_octets + rev_octets AS octets, record_kind, flow, place
FROM v_records AS r
COMMENT 'Applications of each autonomous system, from the flow records; flow and place tell which records of a flow count';
