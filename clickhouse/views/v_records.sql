-- Compare an address with src_addr or dst_addr, which are in the stored form: the query then reads only the records of
-- the time range, and formats only those that match.
CREATE OR REPLACE VIEW v_records
(
    ts DateTime('UTC') COMMENT 'Start of the interval',
    interval_ms UInt32 COMMENT 'Length of the interval in milliseconds',
    probe LowCardinality(String) COMMENT 'Name of the probe that saw the flow',
    record_kind Enum8('flow' = 0, 'overflow' = 1) COMMENT 'flow, or overflow: many flows counted together',
    src_addr IPv6 COMMENT 'Address of the source as it is stored, IPv4 mapped: compare with toIPv6(''192.0.2.1'')',
    dst_addr IPv6 COMMENT 'Address of the destination as it is stored',
    LIKE v_flows (src, src_port, dst, dst_port, protocol_name, flow_start, first_seen, last_seen, fwd_packets, fwd_octets,
        rev_packets, rev_octets),
    LIKE flows (fwd_tcp_syn, rev_tcp_synack),
    application String COMMENT 'Application by nDPI, empty where unknown',
    service String COMMENT 'Service that the flow asked for, by its registered port; empty where unknown',
    LIKE flows (server_name, dns_query),
    LIKE v_flows (nation_direction, src_as, dst_as, src_as_name, dst_as_name, src_country, dst_country),
    src_customer String COMMENT 'Customer of the source, empty for none',
    dst_customer String COMMENT 'Customer of the destination, empty for none',
    flow Tuple(UInt64, UInt64) COMMENT 'Number that all records of a flow in the same 30 seconds share, whichever end they call the source and whichever probe saw the flow',
    place Tuple(Bool, UInt32, Bool, Bool, UInt32, String) COMMENT 'To count a flow once: of several probes that saw a flow, the one with the lowest place counts: probe = argMin(probe, place) OVER (PARTITION BY flow)'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    ts, interval_ms, probe, record_kind, src_addr, dst_addr,
    weir_addr(f.src_addr) AS src, src_port, weir_addr(f.dst_addr) AS dst, dst_port,
    weir_protocol_name(protocol) AS protocol_name, flow_start, first_seen, last_seen,
    fwd_packets, fwd_octets, rev_packets, rev_octets, fwd_tcp_syn, rev_tcp_synack,
    if(f.application_id = 0, '', dictGet('application_names', 'name', f.application_id)) AS application,
    dictGet('service_names', 'name', (f.service, f.protocol)) AS service,
    server_name, dns_query, nation_direction, src_as, dst_as,
    dictGet('autonomous_system_names', 'name', f.src_as) AS src_as_name,
    dictGet('autonomous_system_names', 'name', f.dst_as) AS dst_as_name,
    weir_country(f.src_country) AS src_country, weir_country(f.dst_country) AS dst_country,
    dictGet('customer_names', 'customer', f.src_customer) AS src_customer,
    dictGet('customer_names', 'customer', f.dst_customer) AS dst_customer,
    weir_flow(f.ts, f.record_kind, f.protocol, f.src_addr, f.src_port, f.dst_addr, f.dst_port) AS flow,
    (
        dictGetOrDefault('probe_places', 'one_way', tuple(toString(f.probe)), false),
        greatest(f.sampling_rate, 1),
        f.site_direction NOT IN ('out', 'internal'),
        f.site_direction NOT IN ('in', 'internal'),
        dictGetOrDefault('probe_places', 'rank', tuple(toString(f.probe)), toUInt32(100)),
        toString(f.probe)
    ) AS place
FROM flows AS f
COMMENT 'Flow records with the names of both ends, and with the addresses in the stored form, for fast queries on one address';
