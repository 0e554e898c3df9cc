CREATE OR REPLACE VIEW v_top_flows
(
    LIKE top_flows (ts, window_s, scope, probe),
    customer UInt32 COMMENT 'Customer of a customer''s list, else 0',
    customer_name String COMMENT 'Name of the customer',
    LIKE top_flows (list, rank),
    version UInt32 COMMENT 'How often the window was computed; the newest is shown',
    LIKE v_flows (protocol_name, src, src_port, dst, dst_port),
    LIKE top_flows (octets, packets, fwd_octets, fwd_packets, rev_octets, rev_packets),
    window_octets UInt64 COMMENT 'Layer-3 octets of all flows in the window',
    LIKE top_flows (window_packets, window_flows, overflow_octets, duplicate_octets, error_octets),
    share Float64 COMMENT 'Part of window_octets that the flow has, 0 to 1',
    LIKE top_flows (probes_reported, probes_expected)
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    ts, window_s, scope, probe, customer, dictGet('customer_names', 'customer', customer) AS customer_name, list, rank, version,
    weir_protocol_name(protocol) AS protocol_name,
    weir_addr(src_addr) AS src, src_port, weir_addr(dst_addr) AS dst, dst_port,
    octets, packets, fwd_octets, fwd_packets, rev_octets, rev_packets,
    window_octets, window_packets, window_flows, overflow_octets, duplicate_octets, error_octets,
    octets / greatest(window_octets, 1) AS share,
    probes_reported, probes_expected
FROM top_flows FINAL
WHERE packets > 0
COMMENT 'Top flows of each window, per probe, per customer and over all: the newest version of each list';
