-- An address is compared with src_addr or dst_addr as they are stored: then only the records of a time range are looked at,
-- and only those that match are put into words.
CREATE OR REPLACE VIEW v_records
(
    ts DateTime('UTC') COMMENT 'Start of the interval',
    interval_ms UInt32 COMMENT 'Length of the interval in milliseconds',
    probe LowCardinality(String) COMMENT 'Name of the probe that saw it',
    record_kind Enum8('flow' = 0, 'overflow' = 1) COMMENT 'flow, or overflow: many flows counted together',
    src_addr IPv6 COMMENT 'Address of the source as it is stored, IPv4 mapped: compare with toIPv6(''192.0.2.1'')',
    dst_addr IPv6 COMMENT 'Address of the destination as it is stored',
    src String COMMENT 'Address of the source, IPv4 as IPv4',
    src_port UInt16 COMMENT 'Port of the source',
    dst String COMMENT 'Address of the destination, IPv4 as IPv4',
    dst_port UInt16 COMMENT 'Port of the destination; for ICMP its type * 256 + code',
    protocol_name String COMMENT 'Name of the protocol, its number where it has none here',
    flow_start DateTime64(3, 'UTC') COMMENT 'First packet of the flow ever',
    first_seen DateTime64(3, 'UTC') COMMENT 'First packet in the interval',
    last_seen DateTime64(3, 'UTC') COMMENT 'Last packet in the interval',
    fwd_packets UInt64 COMMENT 'Packets from source to destination',
    fwd_octets UInt64 COMMENT 'Layer-3 octets from source to destination',
    rev_packets UInt64 COMMENT 'Packets from destination to source',
    rev_octets UInt64 COMMENT 'Layer-3 octets from destination to source',
    fwd_tcp_syn UInt32 COMMENT 'SYN packets without ACK, source to destination',
    rev_tcp_synack UInt32 COMMENT 'SYN packets with ACK, destination to source',
    application String COMMENT 'Application by nDPI, empty where unknown',
    service String COMMENT 'Service that the flow asked for, by its registered port; empty where unknown',
    server_name String COMMENT 'Server name the client asked for (TLS or HTTP)',
    dns_query String COMMENT 'First name asked in DNS',
    nation_direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Which way the flow was opened, seen from the nation',
    src_as UInt32 COMMENT 'Autonomous system of the source, 0 unknown',
    dst_as UInt32 COMMENT 'Autonomous system of the destination, 0 unknown',
    src_as_name String COMMENT 'Organisation that runs the autonomous system of the source',
    dst_as_name String COMMENT 'Organisation that runs the autonomous system of the destination',
    src_country String COMMENT 'Country of the source, two letters; empty where unknown',
    dst_country String COMMENT 'Country of the destination, two letters; empty where unknown',
    src_customer String COMMENT 'Customer of the source, empty for none',
    dst_customer String COMMENT 'Customer of the destination, empty for none'
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
    dictGet('customer_names', 'customer', f.dst_customer) AS dst_customer
FROM flows AS f
COMMENT 'Flow records with the names of both ends, and the addresses as they are stored: to ask for one address quickly';
