CREATE OR REPLACE VIEW v_sites
(
    day Date COMMENT 'Day, UTC; the current day is incomplete',
    LIKE sites_daily (probe),
    LIKE v_hourly (canonical),
    src_site String COMMENT 'Site declared for the prefix of the source, the side that began the flows; empty for none',
    dst_site String COMMENT 'Site declared for the prefix of the destination; empty for none',
    src_prefix String COMMENT 'Declared prefix of the source; empty for none',
    dst_prefix String COMMENT 'Declared prefix of the destination; empty for none',
    LIKE connections (src_customer, dst_customer),
    flows UInt64 COMMENT 'Flows that began on the day',
    LIKE connections (packets, octets, fwd_packets, fwd_octets, rev_packets, rev_octets)
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    day, probe, NOT s.duplicate AS canonical,
    dictGet('prefix_names', 'site', s.src_prefix) AS src_site, dictGet('prefix_names', 'site', s.dst_prefix) AS dst_site,
    dictGet('prefix_names', 'prefix', s.src_prefix) AS src_prefix, dictGet('prefix_names', 'prefix', s.dst_prefix) AS dst_prefix,
    dictGet('prefix_names', 'customer', s.src_prefix) AS src_customer, dictGet('prefix_names', 'customer', s.dst_prefix) AS dst_customer,
    flows, s.fwd_packets + s.rev_packets AS packets, s.fwd_octets + s.rev_octets AS octets, fwd_packets, fwd_octets, rev_packets, rev_octets
FROM sites_daily AS s
COMMENT 'Traffic between each two sites, and their prefixes, on each day, for ever. Add up, WHERE canonical over several probes; by the hour it is in v_hourly';
