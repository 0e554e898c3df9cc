CREATE OR REPLACE VIEW v_hourly
(
    ts DateTime('UTC') COMMENT 'Start of the hour',
    probe LowCardinality(String) COMMENT 'Name of the probe',
    canonical Bool COMMENT 'Whether the row counts in sums over several probes: use WHERE canonical there, so that a flow that several probes saw counts once. A sum over one probe includes all its rows',
    record_kind Enum8('flow' = 0, 'overflow' = 1) COMMENT 'flow, or overflow: many flows counted together',
    LIKE connections (src_addr),
    dst_addr IPv6 COMMENT 'Address of the destination as it is stored; if destinations were folded, the first of their network',
    src String COMMENT 'Address of the source, IPv4 as IPv4',
    dst String COMMENT 'Address of the destination; if destinations were folded, their network, such as 192.0.2.0/24',
    folded Bool COMMENT 'Unanswered attempts to a network',
    LIKE v_host_peers (protocol_name, port, service, application),
    LIKE v_flows (src_as, dst_as, src_as_name, dst_as_name, src_country, dst_country),
    LIKE connections (src_customer, dst_customer, src_customer_id, dst_customer_id),
    LIKE v_flows (src_site, dst_site),
    site_direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Direction in which the flows were opened, seen from the probe''s site',
    nation_direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Direction in which the flows were opened, seen from the nation',
    records UInt64 COMMENT 'Interval records that were added up',
    flows UInt64 COMMENT 'Flows that began in the hour',
    LIKE connections (packets, octets, fwd_packets, fwd_octets, rev_packets, rev_octets, fwd_tcp_syn),
    rev_tcp_rst UInt64 COMMENT 'RST packets, destination to source'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    ts, probe, NOT f.duplicate AS canonical, record_kind, src_addr, dst_addr, weir_addr(f.src_addr) AS src,
    weir_addr_or_network(f.dst_addr, f.folded) AS dst,
    folded, weir_protocol_name(protocol) AS protocol_name, port,
    dictGet('service_names', 'name', (f.port, f.protocol)) AS service,
    dictGet('application_names', 'name', toUInt64(f.application_id)) AS application,
    src_as, dst_as,
    INCLUDE ends
    dictGet('prefix_names', 'site', f.src_prefix) AS src_site,
    dictGet('prefix_names', 'site', f.dst_prefix) AS dst_site,
    site_direction, nation_direction, records, flows,
    fwd_packets + rev_packets AS packets, fwd_octets + rev_octets AS octets,
    fwd_packets, fwd_octets, rev_packets, rev_octets, fwd_tcp_syn, rev_tcp_rst
FROM flows_hourly AS f
COMMENT 'Hourly records with readable addresses and names. Add up the rows of one hour, over several probes WHERE canonical: they may not have been merged yet, and late records correct some. The last minutes are missing. For one address or prefix v_network is faster';
