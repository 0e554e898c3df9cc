-- The view hosts for one address: it compares the address in its stored form, so that a query reads one row per day
-- instead of every host.
CREATE OR REPLACE VIEW v_host_days
(
    day Date COMMENT 'Day, UTC; the current day is incomplete',
    probe LowCardinality(String) COMMENT 'Name of the probe that saw the traffic',
    LIKE v_hourly (canonical),
    addr IPv6 COMMENT 'Address of the host as it is stored, IPv4 mapped: addr = ''192.0.2.1''',
    host String COMMENT 'Address of the host, IPv4 as IPv4',
    LIKE hosts (sent_octets, received_octets, octets, flows_begun, flows_received)
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT day, probe, NOT h.duplicate AS canonical, addr, weir_addr(h.addr) AS host, sent_octets, received_octets,
    sent_octets + received_octets AS octets, flows_begun, flows_received
FROM hosts_daily AS h
WHERE NOT network
COMMENT 'Traffic that each host sent and received on each day, with the address as stored, for fast queries on one address. Add up, WHERE canonical over several probes';
