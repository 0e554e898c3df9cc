CREATE OR REPLACE VIEW v_ports_daily
(
    day Date COMMENT 'Day, UTC; the current day is incomplete',
    LIKE ports_daily (probe),
    LIKE v_hourly (canonical),
    LIKE connections (protocol_name),
    LIKE ports_daily (port),
    service String COMMENT 'Registered service of the port; empty where unknown',
    LIKE connections (packets, octets),
    flows UInt64 COMMENT 'Flows that began on the day',
    unanswered UInt64 COMMENT 'Packets of unanswered connection attempts to the port'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    day, probe, NOT p.duplicate AS canonical, weir_protocol_name(protocol) AS protocol_name, port,
    dictGet('service_names', 'name', (p.port, p.protocol)) AS service, packets, octets, flows, unanswered
FROM ports_daily AS p
COMMENT 'Traffic of each TCP and UDP port on each day, for ever. Add up the rows of one day, WHERE canonical over several probes: they may not have been merged yet, and late records correct some';
