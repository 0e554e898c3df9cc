-- Compare an address with src_addr or dst_addr, which are in the stored form: the query then reads only the records of
-- the time range, and formats only those that match.
CREATE OR REPLACE VIEW v_records
(
    ts DateTime('UTC') COMMENT 'Start of the interval',
    interval_ms UInt32 COMMENT 'Length of the interval in milliseconds',
    probe LowCardinality(String) COMMENT 'Name of the probe that saw the flow',
    record_kind Enum8('flow' = 0, 'overflow' = 1) COMMENT 'flow, or overflow: many flows counted together',
    LIKE v_flows (src_addr, dst_addr, src, src_port, dst, dst_port, protocol_name, flow_start, first_seen, last_seen,
        packets, octets, fwd_packets, fwd_octets, rev_packets, rev_octets),
    LIKE flows (fwd_tcp_syn, rev_tcp_synack),
    LIKE v_flows (application, service),
    LIKE flows (server_name, dns_query),
    LIKE v_flows (nation_direction, src_as, dst_as, src_as_name, dst_as_name, src_country, dst_country),
    LIKE v_flows (src_customer, dst_customer, src_customer_id, dst_customer_id),
    flow Tuple(UInt64, UInt64) COMMENT 'Number that all records of a flow in the same 30 seconds share, whichever end they call the source and whichever probe saw the flow',
    place Tuple(Bool, UInt32, Bool, Bool, UInt32, String) COMMENT 'To count a flow once: of several probes that saw a flow, the one with the lowest place counts: probe = argMin(probe, place) OVER (PARTITION BY flow)'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    ts, interval_ms, probe, record_kind, src_addr, dst_addr,
    weir_addr(f.src_addr) AS src, src_port, weir_addr(f.dst_addr) AS dst, dst_port,
    weir_protocol_name(protocol) AS protocol_name, flow_start, first_seen, last_seen,
    fwd_packets + rev_packets AS packets, fwd_octets + rev_octets AS octets,
    fwd_packets, fwd_octets, rev_packets, rev_octets, fwd_tcp_syn, rev_tcp_synack,
    if(f.application_id = 0, '', dictGet('application_names', 'name', f.application_id)) AS application,
    dictGet('service_names', 'name', (f.service, f.protocol)) AS service,
    server_name, dns_query, nation_direction, src_as, dst_as,
    INCLUDE ends
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
