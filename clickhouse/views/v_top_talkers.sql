-- Written by flink-jobs (io.weir.jobs.Definitions) from the declaration of the table; do not edit.

CREATE OR REPLACE VIEW v_top_talkers
(
    LIKE top_talkers (ts, window_s, scope, probe),
    LIKE v_top_flows (customer_id, customer),
    LIKE top_talkers (list, rank),
    LIKE v_top_flows (version),
    LIKE top_talkers (packets_rank, flows_rank, addr),
    host String COMMENT 'Address of the host, IPv4 as IPv4; empty for other lists',
    LIKE top_talkers (number),
    name String COMMENT 'Name of the port''s service, of the AS or of the customer',
    LIKE top_talkers (octets, packets, in_octets, in_packets, out_octets, out_packets, flows, overflow_octets,
        window_octets, window_packets, window_keys, window_overflow_octets, error_octets, probes_reported,
        probes_expected)
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    t.ts AS ts, t.window_s AS window_s, t.scope AS scope, t.probe AS probe, t.customer AS customer_id,
    dictGet('customer_names', 'customer', t.customer) AS customer, t.list AS list, t.rank AS rank,
    t.version AS version, t.packets_rank AS packets_rank, t.flows_rank AS flows_rank, t.addr AS addr,
    if(t.list IN ('host_in', 'host_out'), weir_addr(t.addr), '') AS host, t.number AS number,
    multiIf(t.list = 'port_tcp', dictGet('service_names', 'name', (toUInt16(t.number), toUInt8(6))), t.list = 'port_udp', dictGet('service_names', 'name', (toUInt16(t.number), toUInt8(17))), t.list = 'as', dictGet('autonomous_system_names', 'name', t.number), t.list = 'customer', dictGet('customer_names', 'customer', t.number), '') AS name,
    t.octets AS octets, t.packets AS packets, t.in_octets AS in_octets, t.in_packets AS in_packets,
    t.out_octets AS out_octets, t.out_packets AS out_packets, t.flows AS flows, t.overflow_octets AS overflow_octets,
    t.window_octets AS window_octets, t.window_packets AS window_packets, t.window_keys AS window_keys,
    t.window_overflow_octets AS window_overflow_octets, t.error_octets AS error_octets,
    t.probes_reported AS probes_reported, t.probes_expected AS probes_expected
FROM top_talkers AS t FINAL
WHERE t.packets > 0
COMMENT 'Top hosts, ports, AS and customers of each window, per probe, per customer and over all: the newest version of each list';
