CREATE OR REPLACE VIEW v_top_flows
(
    ts DateTime('UTC') COMMENT 'Start of the window',
    window_s UInt16 COMMENT 'Length of the window in seconds',
    scope Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: the list of one probe. all: the list over all probes, each flow once. customer: of these, the flows of one customer',
    probe LowCardinality(String) COMMENT 'Name of the probe, empty for all',
    customer UInt32 COMMENT 'Customer of a customer''s list, else 0',
    customer_name String COMMENT 'Name of the customer',
    list Enum8('ip_octets' = 1, 'ip_packets' = 2, 'tcp_octets' = 3, 'tcp_packets' = 4, 'udp_octets' = 5, 'udp_packets' = 6, 'icmp_octets' = 7, 'icmp_packets' = 8) COMMENT 'Which flows (ip: all), and what puts them in order',
    rank UInt16 COMMENT 'Place in the list, from 1',
    version UInt32 COMMENT 'How often the window was computed; the newest is shown',
    protocol_name String COMMENT 'Name of the protocol, its number where it has none here',
    src String COMMENT 'Address of the source, IPv4 as IPv4',
    src_port UInt16 COMMENT 'Port of the source',
    dst String COMMENT 'Address of the destination, IPv4 as IPv4',
    dst_port UInt16 COMMENT 'Port of the destination; for ICMP its type * 256 + code',
    octets UInt64 COMMENT 'Layer-3 octets of the flow in the window, both directions',
    packets UInt64 COMMENT 'Packets of the flow in the window, both directions',
    fwd_octets UInt64 COMMENT 'Layer-3 octets from source to destination',
    fwd_packets UInt64 COMMENT 'Packets from source to destination',
    rev_octets UInt64 COMMENT 'Layer-3 octets from destination to source',
    rev_packets UInt64 COMMENT 'Packets from destination to source',
    window_octets UInt64 COMMENT 'Layer-3 octets of all flows in the window',
    window_packets UInt64 COMMENT 'Packets of all flows in the window',
    window_flows UInt64 COMMENT 'Distinct flows in the window',
    overflow_octets UInt64 COMMENT 'Of window_octets, what came in overflow records and so could be in no list',
    duplicate_octets UInt64 COMMENT 'Lists over all probes: octets left out because another probe had seen the same flow',
    error_octets UInt64 COMMENT 'A flow may have this many octets more, and one that is not in the list no more than this: windows had more flows than they keep (--window-flows). 0: exact',
    share Float64 COMMENT 'Part of window_octets that the flow has, 0 to 1',
    probes_reported UInt32 COMMENT 'Probes whose window was complete when the row was computed',
    probes_expected UInt32 COMMENT 'Probes that were enrolled'
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
