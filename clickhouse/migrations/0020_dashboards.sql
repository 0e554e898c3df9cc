-- Views that the dashboards read, beside those of 0006 to 0013.

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

-- mixes hold shares of AS and of applications, each by itself; what an AS is used for is told by the records alone.
CREATE OR REPLACE VIEW v_as_applications
(
    ts DateTime('UTC') COMMENT 'Start of the interval',
    probe LowCardinality(String) COMMENT 'Name of the probe that saw it',
    direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Which way the flow was opened, seen from the nation',
    as_number UInt32 COMMENT 'Autonomous system of the end outside, else of the source; 0 unknown',
    as_name String COMMENT 'Organisation that runs it',
    application String COMMENT 'Application by nDPI, else the registered service; unknown where neither is known',
    packets UInt64 COMMENT 'Packets, both directions',
    octets UInt64 COMMENT 'Layer-3 octets, both directions'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    f.ts AS ts, f.probe AS probe, f.nation_direction AS direction,
    if(f.nation_direction = 'out', f.dst_as, f.src_as) AS as_number,
    dictGet('autonomous_system_names', 'name', as_number) AS as_name,
    coalesce(
        if(f.application_id = 0, NULL, nullIf(dictGet('application_names', 'name', f.application_id), '')),
        nullIf(dictGet('service_names', 'name', (f.service, f.protocol)), ''), 'unknown') AS application,
    f.fwd_packets + f.rev_packets AS packets, f.fwd_octets + f.rev_octets AS octets
FROM flows AS f
COMMENT 'What each autonomous system is used for, from the flow records: a flow that two probes saw counts twice';

-- The view hosts for one address: the address is compared as it is stored, so a row a day is read and not every host.
CREATE OR REPLACE VIEW v_host_days
(
    day Date COMMENT 'Day, UTC; the present one grows',
    probe LowCardinality(String) COMMENT 'Name of the probe that saw it',
    addr IPv6 COMMENT 'Address of the host as it is stored, IPv4 mapped: compare with toIPv6(''192.0.2.1'')',
    host String COMMENT 'Address of the host, IPv4 as IPv4',
    sent_octets UInt64 COMMENT 'Layer-3 octets that it sent',
    received_octets UInt64 COMMENT 'Layer-3 octets that it received',
    flows_begun UInt64 COMMENT 'Flows that it began',
    flows_received UInt64 COMMENT 'Flows that others began to it'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT day, probe, addr, weir_addr(h.addr) AS host, sent_octets, received_octets, flows_begun, flows_received
FROM hosts_daily AS h
WHERE NOT network
COMMENT 'What each host sent and received on each day, with the address as it is stored: to ask for one address quickly. Add up';

-- v_network asks with the rights of who asks, so whoever may read views alone cannot use it; this can be asked by anybody
-- who may read it. The condition on addr reaches both tables, each of which is ordered by it.
CREATE OR REPLACE VIEW v_host_peers
(
    ts DateTime('UTC') COMMENT 'Start of the hour',
    probe LowCardinality(String) COMMENT 'Name of the probe; where several see the same flow, each counts it',
    addr IPv6 COMMENT 'Address of the host as it is stored, IPv4 mapped: addr = toIPv6(''192.0.2.1''), or BETWEEN the first and the last of a network',
    host String COMMENT 'Address of the host, IPv4 as IPv4',
    began Bool COMMENT 'The host began the flows; else the peer did',
    peer String COMMENT 'Address of the other end; a network such as 192.0.2.0/24 where nobody answered there',
    protocol_name String COMMENT 'Name of the protocol',
    port UInt16 COMMENT 'Port of the service, else of the destination; 0 for ephemeral ones. For ICMP its type * 256 + code',
    service String COMMENT 'Name of the service by port and protocol, empty where it has none',
    application String COMMENT 'Name of the application, empty where unknown',
    peer_as UInt32 COMMENT 'Autonomous system of the other end, 0 unknown',
    peer_as_name String COMMENT 'Organisation that runs it',
    peer_country String COMMENT 'Country of the other end, two letters; empty where unknown',
    flows UInt64 COMMENT 'Flows that began in the hour',
    sent_packets UInt64 COMMENT 'Packets that the host sent',
    sent_octets UInt64 COMMENT 'Layer-3 octets that the host sent',
    received_packets UInt64 COMMENT 'Packets that the host received',
    received_octets UInt64 COMMENT 'Layer-3 octets that the host received'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    ts, probe, addr, weir_addr(h.addr) AS host, began, weir_addr_or_network(h.peer_addr, h.folded AND h.began) AS peer,
    weir_protocol_name(protocol) AS protocol_name, port,
    dictGet('service_names', 'name', (h.port, h.protocol)) AS service,
    dictGet('application_names', 'name', toUInt64(h.application_id)) AS application,
    peer_as, dictGet('autonomous_system_names', 'name', h.peer_as) AS peer_as_name, weir_country(h.country) AS peer_country,
    flows, sent_packets, sent_octets, received_packets, received_octets
FROM
(
    SELECT
        ts, probe, src_addr AS addr, true AS began, dst_addr AS peer_addr, folded, protocol, port, application_id,
        dst_as AS peer_as, dst_country AS country, flows,
        fwd_packets AS sent_packets, fwd_octets AS sent_octets, rev_packets AS received_packets, rev_octets AS received_octets
    FROM flows_hourly
    UNION ALL
    SELECT
        ts, probe, dst_addr, false, src_addr, folded, protocol, port, application_id,
        src_as, src_country, flows, rev_packets, rev_octets, fwd_packets, fwd_octets
    FROM flows_hourly_by_destination
    WHERE NOT folded
) AS h
COMMENT 'Hourly records from the side of each host, for years: WHERE addr = toIPv6(''192.0.2.1''). Traffic between two hosts has two rows, one for each';
