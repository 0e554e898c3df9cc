-- The view has each address both as it is stored and as text: a query for one address then compares 16 octets and
-- formats no text.
CREATE OR REPLACE VIEW connections
(
    probe LowCardinality(String) COMMENT 'Name of the probe; if several saw the flow, each has a row',
    flow_start DateTime64(3, 'UTC') COMMENT 'First packet of the flow; restrict queries to a range of it',
    last_seen DateTime64(3, 'UTC') COMMENT 'Last packet so far',
    duration_s Float64 COMMENT 'Time from the first packet to the last one so far, seconds',
    src_addr IPv6 COMMENT 'Address of the source as it is stored, IPv4 mapped: src_addr = ''192.0.2.1'', or weir_in(src_addr, ''192.0.2.0/24''), which is much faster than src',
    dst_addr IPv6 COMMENT 'Address of the destination likewise',
    src String COMMENT 'Address of the source, the side that began the flow, IPv4 as IPv4',
    src_port UInt16 COMMENT 'Port of the source',
    dst String COMMENT 'Address of the destination, IPv4 as IPv4',
    dst_port UInt16 COMMENT 'Port of the destination; for ICMP its type * 256 + code',
    protocol_name String COMMENT 'Name of the protocol, such as TCP, UDP or ICMPv6, or its number if its name is unknown',
    vlan UInt16 COMMENT 'VLAN id, 0 for none',
    service String COMMENT 'Name of the service, by its registered port; empty where unknown',
    application String COMMENT 'Name of the application, empty where unknown',
    LIKE flows (server_name, dns_query),
    intervals UInt64 COMMENT 'Interval records that were added up',
    packets UInt64 COMMENT 'Packets, both directions',
    octets UInt64 COMMENT 'Layer-3 octets, both directions',
    LIKE top_flows (fwd_packets, fwd_octets, rev_packets, rev_octets),
    fwd_tcp_syn UInt64 COMMENT 'SYN packets without ACK, source to destination',
    rev_tcp_synack UInt64 COMMENT 'SYN packets with ACK, destination to source',
    tcp_fin UInt64 COMMENT 'FIN packets, both directions',
    tcp_rst UInt64 COMMENT 'RST packets, both directions',
    tcp_retransmissions UInt64 COMMENT 'Retransmitted segments, both directions',
    tcp_handshake_rtt_us UInt32 COMMENT 'Round-trip time of the TCP handshake in microseconds, 0 where none was seen',
    icmp_errors UInt64 COMMENT 'ICMP errors among the packets',
    site_direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Direction in which the flow was opened, seen from the probe''s site',
    nation_direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Direction in which the flow was opened, seen from the nation',
    LIKE flows (src_as, dst_as),
    src_country String COMMENT 'Country of the source, two letters; empty where unknown',
    dst_country String COMMENT 'Country of the destination, two letters; empty where unknown',
    src_customer String COMMENT 'Customer of the source when the record was stored, by name; empty for none',
    dst_customer String COMMENT 'Customer of the destination when the record was stored, by name; empty for none',
    src_customer_id UInt32 COMMENT 'Customer of the source, by number; 0 none',
    dst_customer_id UInt32 COMMENT 'Customer of the destination, by number; 0 none',
    initiator_guess Bool COMMENT 'The source is a guess'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    f.probe AS probe, f.flow_start AS flow_start, max(f.last_seen) AS last_seen,
    dateDiff('millisecond', f.flow_start, max(f.last_seen)) / 1000 AS duration_s,
    f.src_addr AS src_addr, f.dst_addr AS dst_addr,
    weir_addr(f.src_addr) AS src, f.src_port AS src_port, weir_addr(f.dst_addr) AS dst, f.dst_port AS dst_port,
    weir_protocol_name(f.protocol) AS protocol_name, f.vlan AS vlan,
    dictGet('service_names', 'name', (max(f.service), f.protocol)) AS service,
    dictGet('application_names', 'name', toUInt64(argMax(f.application_id, (f.application_id != 0, f.ts)))) AS application,
    max(f.server_name) AS server_name, argMin(f.dns_query, (f.dns_query = '', f.ts)) AS dns_query,
    count() AS intervals,
    sum(f.fwd_packets) + sum(f.rev_packets) AS packets, sum(f.fwd_octets) + sum(f.rev_octets) AS octets,
    sum(f.fwd_packets) AS fwd_packets, sum(f.fwd_octets) AS fwd_octets, sum(f.rev_packets) AS rev_packets, sum(f.rev_octets) AS rev_octets,
    sum(f.fwd_tcp_syn) AS fwd_tcp_syn, sum(f.rev_tcp_synack) AS rev_tcp_synack,
    sum(f.fwd_tcp_fin) + sum(f.rev_tcp_fin) AS tcp_fin, sum(f.fwd_tcp_rst) + sum(f.rev_tcp_rst) AS tcp_rst,
    sum(f.fwd_tcp_retransmissions) + sum(f.rev_tcp_retransmissions) AS tcp_retransmissions,
    max(f.tcp_handshake_rtt_us) AS tcp_handshake_rtt_us, sum(f.fwd_icmp_errors) + sum(f.rev_icmp_errors) AS icmp_errors,
    any(f.site_direction) AS site_direction, any(f.nation_direction) AS nation_direction,
    any(f.src_as) AS src_as, any(f.dst_as) AS dst_as,
    weir_country(any(f.src_country)) AS src_country, weir_country(any(f.dst_country)) AS dst_country,
    dictGet('customer_names', 'customer', any(f.src_customer)) AS src_customer,
    dictGet('customer_names', 'customer', any(f.dst_customer)) AS dst_customer,
    any(f.src_customer) AS src_customer_id, any(f.dst_customer) AS dst_customer_id, max(f.initiator_guess) AS initiator_guess
FROM flows AS f
WHERE f.record_kind = 'flow'
GROUP BY f.probe, f.src_addr, f.dst_addr, f.src_port, f.dst_port, f.protocol, f.vlan, f.flow_start
COMMENT 'Whole connections: the interval records of each flow added up. Restrict flow_start to a range; the view leaves out overflow records';
