-- Written by flink-jobs (io.weir.jobs.Definitions) from the declaration of the table; do not edit.

CREATE OR REPLACE VIEW v_mixes
(
    LIKE mixes (ts, window_s, scope, probe),
    LIKE v_top_flows (customer_id, customer),
    LIKE mixes (dimension, direction, rank),
    LIKE v_top_flows (version),
    LIKE mixes (number),
    name String COMMENT 'Name of the application, AS, country or customer; in the last two rows of a mix, the meaning of the row',
    application_id UInt16 COMMENT 'Dimension application: the application; as_application: that of the pair, whose AS is number; 0 unknown. 0 in all other dimensions',
    application String COMMENT 'Dimensions application and as_application: name of the application; empty in all other dimensions and for the rest',
    LIKE mixes (remainder, octets, packets, flows, ipv4_octets, ipv4_packets, ipv4_flows, ipv6_octets, ipv6_packets,
        ipv6_flows, overflow_octets, direction_octets, direction_packets, direction_flows, probes_reported,
        probes_expected),
    share Float64 COMMENT 'Part of direction_octets, 0 to 1'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    t.ts AS ts, t.window_s AS window_s, t.scope AS scope, t.probe AS probe, t.customer AS customer_id,
    dictGet('customer_names', 'customer', t.customer) AS customer, t.dimension AS dimension, t.direction AS direction,
    t.rank AS rank, t.version AS version, t.number AS number,
    multiIf(t.remainder, 'the rest', t.dimension = 'total', 'all', t.number = 0, 'unknown', t.dimension = 'application', dictGet('application_names', 'name', t.number), t.dimension = 'as', dictGet('autonomous_system_names', 'name', t.number), t.dimension = 'country', weir_country(t.number), t.dimension = 'customer', dictGet('customer_names', 'customer', t.number), t.dimension = 'as_application', dictGet('autonomous_system_names', 'name', t.number), '') AS name,
    if(t.dimension = 'application', toUInt16(t.number), t.application) AS application_id,
    multiIf(t.dimension NOT IN ('application', 'as_application') OR t.remainder, '', application_id = 0, 'unknown', dictGet('application_names', 'name', application_id)) AS application,
    t.remainder AS remainder, t.octets AS octets, t.packets AS packets, t.flows AS flows,
    t.ipv4_octets AS ipv4_octets, t.ipv4_packets AS ipv4_packets, t.ipv4_flows AS ipv4_flows,
    t.ipv6_octets AS ipv6_octets, t.ipv6_packets AS ipv6_packets, t.ipv6_flows AS ipv6_flows,
    t.overflow_octets AS overflow_octets, t.direction_octets AS direction_octets,
    t.direction_packets AS direction_packets, t.direction_flows AS direction_flows,
    t.probes_reported AS probes_reported, t.probes_expected AS probes_expected,
    t.octets / greatest(t.direction_octets, 1) AS share
FROM mixes AS t FINAL
WHERE t.packets > 0
COMMENT 'Totals, and shares of applications, AS, countries, customers, and AS with application, of each window: the newest version';
