-- Written by flink-jobs (io.weir.jobs.Definitions) from the declaration of the table; do not edit.

CREATE OR REPLACE VIEW v_top_flows
(
    LIKE top_flows (ts, window_s, scope, probe),
    customer_id UInt32 COMMENT 'Customer whose list or sum it is, by number; 0 for those of no customer',
    customer String COMMENT 'Name of the customer, empty for none',
    LIKE top_flows (list, rank),
    version UInt32 COMMENT 'Number of times that the window was computed; the view shows the newest version',
    protocol_name String COMMENT 'Name of the protocol, such as TCP, UDP or ICMPv6, or its number if its name is unknown',
    src String COMMENT 'Address of the source, IPv4 as IPv4',
    src_port UInt16 COMMENT 'Port of the source',
    dst String COMMENT 'Address of the destination, IPv4 as IPv4',
    LIKE top_flows (src_addr, dst_addr, dst_port, octets, packets, fwd_octets, fwd_packets, rev_octets, rev_packets),
    window_octets UInt64 COMMENT 'Layer-3 octets of all flows in the window',
    LIKE top_flows (window_packets, window_flows, overflow_octets, duplicate_octets, error_octets),
    share Float64 COMMENT 'Share of window_octets that the flow has, 0 to 1',
    LIKE top_flows (probes_reported, probes_expected)
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    t.ts AS ts, t.window_s AS window_s, t.scope AS scope, t.probe AS probe, t.customer AS customer_id,
    dictGet('customer_names', 'customer', t.customer) AS customer, t.list AS list, t.rank AS rank,
    t.version AS version, weir_protocol_name(t.protocol) AS protocol_name, weir_addr(t.src_addr) AS src,
    t.src_port AS src_port, weir_addr(t.dst_addr) AS dst, t.src_addr AS src_addr, t.dst_addr AS dst_addr,
    t.dst_port AS dst_port, t.octets AS octets, t.packets AS packets, t.fwd_octets AS fwd_octets,
    t.fwd_packets AS fwd_packets, t.rev_octets AS rev_octets, t.rev_packets AS rev_packets,
    t.window_octets AS window_octets, t.window_packets AS window_packets, t.window_flows AS window_flows,
    t.overflow_octets AS overflow_octets, t.duplicate_octets AS duplicate_octets, t.error_octets AS error_octets,
    t.octets / greatest(t.window_octets, 1) AS share, t.probes_reported AS probes_reported,
    t.probes_expected AS probes_expected
FROM top_flows AS t FINAL
WHERE t.packets > 0
COMMENT 'Top flows of each window, per probe, per customer and over all: the newest version of each list';
