-- v_network queries with the rights of the user, so users who may only read views cannot use it; this view works for
-- every user who may read it. The condition on addr reaches both tables, each of which is ordered by it.
CREATE OR REPLACE VIEW v_host_peers
(
    ts DateTime('UTC') COMMENT 'Start of the hour',
    probe LowCardinality(String) COMMENT 'Name of the probe',
    LIKE v_hourly (canonical),
    addr IPv6 COMMENT 'Address of the host as it is stored, IPv4 mapped: addr = ''192.0.2.1'', or weir_in(addr, ''192.0.2.0/24'')',
    host String COMMENT 'Address of the host, IPv4 as IPv4',
    began Bool COMMENT 'True if the host began the flows, false if the peer did',
    peer String COMMENT 'Address of the other end; a network such as 192.0.2.0/24 if no host in it answered',
    LIKE connections (protocol_name),
    port UInt16 COMMENT 'Port of the service; if it is unknown, of the destination; 0 for ephemeral ports. For ICMP its type * 256 + code',
    service String COMMENT 'Name of the service by port and protocol, empty if the port has none',
    application String COMMENT 'Name of the application, empty where unknown',
    peer_as UInt32 COMMENT 'Autonomous system of the other end, 0 unknown',
    peer_as_name String COMMENT 'Organisation that runs the autonomous system',
    peer_country String COMMENT 'Country of the other end, two letters; empty where unknown',
    flows UInt64 COMMENT 'Flows that began in the hour',
    sent_packets UInt64 COMMENT 'Packets that the host sent',
    sent_octets UInt64 COMMENT 'Layer-3 octets that the host sent',
    received_packets UInt64 COMMENT 'Packets that the host received',
    received_octets UInt64 COMMENT 'Layer-3 octets that the host received',
    packets UInt64 COMMENT 'Packets sent and received',
    octets UInt64 COMMENT 'Layer-3 octets sent and received'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    ts, probe, NOT h.duplicate AS canonical, addr, weir_addr(h.addr) AS host, began, weir_addr_or_network(h.peer_addr, h.folded AND h.began) AS peer,
    weir_protocol_name(protocol) AS protocol_name, port,
    dictGet('service_names', 'name', (h.port, h.protocol)) AS service,
    dictGet('application_names', 'name', toUInt64(h.application_id)) AS application,
    peer_as, dictGet('autonomous_system_names', 'name', h.peer_as) AS peer_as_name, weir_country(h.country) AS peer_country,
    flows, sent_packets, sent_octets, received_packets, received_octets,
    sent_packets + received_packets AS packets, sent_octets + received_octets AS octets
FROM
(
    SELECT
        ts, probe, duplicate, src_addr AS addr, true AS began, dst_addr AS peer_addr, folded, protocol, port, application_id,
        dst_as AS peer_as, dst_country AS country, flows,
        fwd_packets AS sent_packets, fwd_octets AS sent_octets, rev_packets AS received_packets, rev_octets AS received_octets
    FROM flows_hourly
    UNION ALL
    SELECT
        ts, probe, duplicate, dst_addr, false, src_addr, folded, protocol, port, application_id,
        src_as, src_country, flows, rev_packets, rev_octets, fwd_packets, fwd_octets
    FROM flows_hourly_by_destination
    WHERE NOT folded
) AS h
COMMENT 'Hourly records from the side of each host, for years: WHERE addr = ''192.0.2.1''. Traffic between two hosts has two rows, one for each. Add up, WHERE canonical over several probes';
