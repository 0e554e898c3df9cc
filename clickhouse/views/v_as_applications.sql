-- mixes contain shares of AS and of applications separately; only the records show the applications of an AS.
CREATE OR REPLACE VIEW v_as_applications
(
    ts DateTime('UTC') COMMENT 'Start of the interval',
    probe LowCardinality(String) COMMENT 'Name of the probe that saw it',
    direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Direction in which the flow was opened, seen from the nation',
    as_number UInt32 COMMENT 'Autonomous system of the outside end, else of the source; 0 unknown',
    as_name String COMMENT 'Organisation that runs it',
    application String COMMENT 'Application by nDPI, else the registered service; unknown if neither is known',
    packets UInt64 COMMENT 'Packets, both directions',
    octets UInt64 COMMENT 'Layer-3 octets, both directions'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    f.ts AS ts, f.probe AS probe, f.nation_direction AS direction,
    if(f.nation_direction = 'out', f.dst_as, f.src_as) AS as_number,
    dictGet('autonomous_system_names', 'name', as_number) AS as_name,
    coalesce(
        if(f.application_id = 0, NULL, nullIf(dictGet('application_names', 'name', f.application_id), '')),
        nullIf(dictGet('service_names', 'name', (f.service, f.protocol)), ''), 'unknown') AS application,
    f.fwd_packets + f.rev_packets AS packets, f.fwd_octets + f.rev_octets AS octets
FROM flows AS f
COMMENT 'Applications of each autonomous system, from the flow records: a flow that two probes saw counts twice';
