-- Views over the tiers, for people.

-- First and last address of '192.0.2.0/24', '2001:db8::/32' or one address.
CREATE OR REPLACE FUNCTION weir_range AS (network) -> IPv6CIDRToRange(
    toIPv6(splitByChar('/', network)[1]),
    if(position(network, '/') = 0, toUInt8(128), toUInt8(toUInt8(splitByChar('/', network)[2]) + if(position(network, ':') = 0, 96, 0))));
CREATE OR REPLACE FUNCTION weir_first AS (network) -> tupleElement(weir_range(network), 1);
CREATE OR REPLACE FUNCTION weir_last AS (network) -> tupleElement(weir_range(network), 2);
CREATE OR REPLACE FUNCTION weir_is_ipv4 AS (addr) -> startsWith(IPv6NumToString(addr), '::ffff:');
CREATE OR REPLACE FUNCTION weir_addr_or_network AS (addr, network) -> concat(weir_addr(addr), multiIf(NOT network, '', weir_is_ipv4(addr), '/24', '/48'));

CREATE OR REPLACE VIEW v_hourly
(
    ts DateTime('UTC') COMMENT 'Start of the hour',
    probe LowCardinality(String) COMMENT 'Name of the probe; where several see the same flow, each counts it',
    record_kind Enum8('flow' = 0, 'overflow' = 1) COMMENT 'flow, or overflow: many flows counted together',
    src String COMMENT 'Address of the source, IPv4 as IPv4',
    dst String COMMENT 'Address of the destination; where folded its network, such as 192.0.2.0/24',
    folded Bool COMMENT 'Unanswered attempts to a network',
    protocol_name String COMMENT 'Name of the protocol',
    port UInt16 COMMENT 'Port of the service, else of the destination; 0 for ephemeral ones. For ICMP its type * 256 + code',
    service String COMMENT 'Name of the service by port and protocol, empty where it has none',
    application String COMMENT 'Name of the application, empty where unknown',
    src_as UInt32 COMMENT 'Autonomous system of the source, 0 unknown',
    dst_as UInt32 COMMENT 'Autonomous system of the destination, 0 unknown',
    src_as_name String COMMENT 'Organisation that runs the autonomous system of the source',
    dst_as_name String COMMENT 'Organisation that runs the autonomous system of the destination',
    src_country String COMMENT 'Country of the source, two letters; empty where unknown',
    dst_country String COMMENT 'Country of the destination, two letters; empty where unknown',
    src_customer UInt32 COMMENT 'Customer of the source, by number; 0 none',
    dst_customer UInt32 COMMENT 'Customer of the destination, by number; 0 none',
    src_customer_name String COMMENT 'Name of the customer of the source',
    dst_customer_name String COMMENT 'Name of the customer of the destination',
    site_direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Which way the flows were opened, seen from the probe''s site',
    nation_direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Which way the flows were opened, seen from the nation',
    records UInt64 COMMENT 'Interval records that were added up',
    flows UInt64 COMMENT 'Flows that began in the hour',
    packets UInt64 COMMENT 'Packets, both directions',
    octets UInt64 COMMENT 'Layer-3 octets, both directions',
    fwd_packets UInt64 COMMENT 'Packets from source to destination',
    fwd_octets UInt64 COMMENT 'Layer-3 octets from source to destination',
    rev_packets UInt64 COMMENT 'Packets from destination to source',
    rev_octets UInt64 COMMENT 'Layer-3 octets from destination to source',
    fwd_tcp_syn UInt64 COMMENT 'SYN packets without ACK, source to destination',
    rev_tcp_rst UInt64 COMMENT 'RST packets, destination to source'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    ts, probe, record_kind, weir_addr(src_addr) AS src,
    weir_addr_or_network(dst_addr, folded) AS dst,
    folded, weir_protocol_name(protocol) AS protocol_name, port,
    dictGet('service_names', 'name', (h.port, h.protocol)) AS service,
    dictGet('application_names', 'name', toUInt64(h.application_id)) AS application,
    src_as, dst_as,
    dictGet('autonomous_system_names', 'name', h.src_as) AS src_as_name,
    dictGet('autonomous_system_names', 'name', h.dst_as) AS dst_as_name,
    weir_country(h.src_country) AS src_country, weir_country(h.dst_country) AS dst_country,
    src_customer, dst_customer,
    dictGet('customer_names', 'customer', h.src_customer) AS src_customer_name,
    dictGet('customer_names', 'customer', h.dst_customer) AS dst_customer_name,
    site_direction, nation_direction, records, flows,
    fwd_packets + rev_packets AS packets, fwd_octets + rev_octets AS octets,
    fwd_packets, fwd_octets, rev_packets, rev_octets, fwd_tcp_syn, rev_tcp_rst
FROM flows_hourly AS h
COMMENT 'Hourly records with addresses and names to read. Add up: rows of one hour may not have been joined yet. For one address or prefix v_network is faster';

-- Both copies answer with what stands first in their order: a few granules for each week.
CREATE OR REPLACE VIEW v_network
AS SELECT
    ts, probe, side,
    weir_addr_or_network(addr, folded AND side = 'destination') AS host,
    weir_addr_or_network(peer_addr, folded AND side = 'source') AS peer,
    folded, weir_protocol_name(protocol) AS protocol_name, port,
    dictGet('service_names', 'name', (n.port, n.protocol)) AS service,
    dictGet('application_names', 'name', toUInt64(n.application_id)) AS application,
    peer_as, dictGet('autonomous_system_names', 'name', n.peer_as) AS peer_as_name, weir_country(n.peer_country_code) AS peer_country,
    flows, sent_packets, sent_octets, received_packets, received_octets,
    sent_packets + received_packets AS packets, sent_octets + received_octets AS octets, fwd_tcp_syn, rev_tcp_rst
FROM
(
    SELECT
        ts, probe, 'source' AS side, src_addr AS addr, dst_addr AS peer_addr, folded, protocol, port, application_id,
        dst_as AS peer_as, dst_country AS peer_country_code, flows,
        fwd_packets AS sent_packets, fwd_octets AS sent_octets, rev_packets AS received_packets, rev_octets AS received_octets,
        fwd_tcp_syn, rev_tcp_rst
    FROM flows_hourly
    WHERE src_addr BETWEEN weir_first({network:String}) AND weir_last({network:String})
    UNION ALL
    SELECT
        ts, probe, 'destination' AS side, dst_addr AS addr, src_addr AS peer_addr, folded, protocol, port, application_id,
        src_as AS peer_as, src_country AS peer_country_code, flows,
        rev_packets AS sent_packets, rev_octets AS sent_octets, fwd_packets AS received_packets, fwd_octets AS received_octets,
        fwd_tcp_syn, rev_tcp_rst
    FROM flows_hourly_by_destination
    WHERE dst_addr BETWEEN weir_first({network:String}) AND weir_last({network:String})
        OR (folded AND dst_addr = weir_network(weir_first({network:String}), if(weir_is_ipv4(weir_first({network:String})), 4, 6)))
) AS n
COMMENT 'Hourly records of one address or prefix on either side: SELECT … FROM v_network(network = ''192.0.2.0/24''). Traffic inside of the prefix has two rows, one for each end; unanswered attempts to the /24 or /48 around it are shown with that network as host';

CREATE OR REPLACE VIEW hosts
(
    day Date COMMENT 'Day, UTC; the present one grows',
    probe LowCardinality(String) COMMENT 'Name of the probe that saw it; where several see the same flow, each counts it',
    host String COMMENT 'Address of the host, IPv4 as IPv4; for a network such as 192.0.2.0/24',
    network Bool COMMENT 'Not a host but a network that unanswered attempts went to',
    customer UInt32 COMMENT 'Customer of the host, by number; 0 none',
    customer_name String COMMENT 'Name of the customer',
    as_number UInt32 COMMENT 'Autonomous system, 0 unknown',
    as_name String COMMENT 'Organisation that runs it',
    country String COMMENT 'Country, two letters; empty where unknown',
    sent_packets UInt64 COMMENT 'Packets that it sent',
    sent_octets UInt64 COMMENT 'Layer-3 octets that it sent',
    received_packets UInt64 COMMENT 'Packets that it received',
    received_octets UInt64 COMMENT 'Layer-3 octets that it received',
    octets UInt64 COMMENT 'Layer-3 octets sent and received',
    flows_begun UInt64 COMMENT 'Flows that it began',
    flows_received UInt64 COMMENT 'Flows that others began to it',
    syn_sent UInt64 COMMENT 'SYN packets that it sent for flows that it began',
    unanswered UInt64 COMMENT 'Packets of unanswered attempts: that it sent, or for a network that went there'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    day, probe, weir_addr_or_network(addr, network) AS host, network,
    customer, dictGet('customer_names', 'customer', h.customer) AS customer_name,
    as_number, dictGet('autonomous_system_names', 'name', h.as_number) AS as_name, weir_country(h.country) AS country,
    sent_packets, sent_octets, received_packets, received_octets, sent_octets + received_octets AS octets,
    flows_begun, flows_received, syn_sent, unanswered
FROM hosts_daily AS h
COMMENT 'What each host sent and received on each day. Add up: rows of one day may not have been joined yet. Over all hosts every packet is counted twice, for its sender and for its receiver';

CREATE OR REPLACE VIEW v_talkers_daily
(
    day Date COMMENT 'Day, UTC',
    probe LowCardinality(String) COMMENT 'Name of the probe that saw it',
    rank UInt16 COMMENT 'Place by octets, from 1; 0: all hosts that are not in the list',
    addr IPv6 COMMENT 'Address of the host as it is stored, IPv4 mapped; group by it over long spans, which is much faster than by host, and make text of it with weir_addr(addr)',
    host String COMMENT 'Address of the host, IPv4 as IPv4; for a network such as 192.0.2.0/24; empty for the remainder',
    hosts UInt64 COMMENT 'Hosts that the row stands for',
    customer UInt32 COMMENT 'Customer of the host, by number; 0 none',
    customer_name String COMMENT 'Name of the customer',
    as_number UInt32 COMMENT 'Autonomous system, 0 unknown',
    as_name String COMMENT 'Organisation that runs it',
    country String COMMENT 'Country, two letters; empty where unknown',
    octets UInt64 COMMENT 'Layer-3 octets sent and received',
    packets UInt64 COMMENT 'Packets sent and received',
    sent_packets UInt64 COMMENT 'Packets sent',
    sent_octets UInt64 COMMENT 'Layer-3 octets sent',
    received_packets UInt64 COMMENT 'Packets received',
    received_octets UInt64 COMMENT 'Layer-3 octets received',
    flows_begun UInt64 COMMENT 'Flows that it began',
    flows_received UInt64 COMMENT 'Flows that others began to it'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    day, probe, rank, addr, if(rank = 0, '', weir_addr_or_network(addr, network)) AS host, hosts,
    customer, dictGet('customer_names', 'customer', t.customer) AS customer_name,
    as_number, dictGet('autonomous_system_names', 'name', t.as_number) AS as_name, weir_country(t.country) AS country,
    sent_octets + received_octets AS octets, sent_packets + received_packets AS packets,
    sent_packets, sent_octets, received_packets, received_octets, flows_begun, flows_received
FROM talkers_daily AS t
COMMENT 'Top 10,000 hosts of each probe and day, for ever, and the remainder; the present day is in hosts';

CREATE OR REPLACE VIEW v_mixes_daily
(
    day Date COMMENT 'Day, UTC',
    scope Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: what one probe saw. all: all probes, each flow once. customer: of these, what one customer had',
    probe LowCardinality(String) COMMENT 'Name of the probe, empty for all and for customers',
    customer UInt32 COMMENT 'Customer of scope customer, else 0',
    customer_name String COMMENT 'Name of the customer',
    dimension Enum8('total' = 1, 'application' = 2, 'as' = 3, 'country' = 4, 'customer' = 5) COMMENT 'What the rows are by',
    direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Which way the packets went: in is from outside to inside',
    number UInt32 COMMENT 'Application, AS, country or customer',
    name String COMMENT 'Its name',
    remainder Bool COMMENT 'All that was in no row of its own in a window',
    windows UInt32 COMMENT 'Windows of the day that the row is in',
    octets UInt64 COMMENT 'Layer-3 octets',
    packets UInt64 COMMENT 'Packets',
    flows UInt64 COMMENT 'Flows that began on the day',
    ipv4_octets UInt64 COMMENT 'Of octets, IPv4',
    ipv6_octets UInt64 COMMENT 'Of octets, IPv6'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    day, scope, probe, customer, dictGet('customer_names', 'customer', t.customer) AS customer_name, dimension, direction, number,
    multiIf(t.remainder, 'the rest', t.dimension = 'total', 'all', t.number = 0, 'unknown', t.dimension = 'application', dictGet('application_names', 'name', t.number), t.dimension = 'as', dictGet('autonomous_system_names', 'name', t.number), t.dimension = 'country', weir_country(t.number), t.dimension = 'customer', dictGet('customer_names', 'customer', t.number), '') AS name,
    remainder, windows, octets, packets, flows, octets - ipv6_octets AS ipv4_octets, ipv6_octets
FROM mixes_daily AS t
COMMENT 'Totals, and applications, AS, countries and customers of each day, for ever; the present day is in v_mixes';

-- Interval records of one flow, summed back.
CREATE OR REPLACE VIEW connections
(
    probe LowCardinality(String) COMMENT 'Name of the probe; where several saw it, each has a row',
    flow_start DateTime64(3, 'UTC') COMMENT 'First packet ever: give a range of it',
    last_seen DateTime64(3, 'UTC') COMMENT 'Last packet so far',
    duration_s Float64 COMMENT 'From the first packet to the last so far, seconds',
    src String COMMENT 'Address of the source, the side that began, IPv4 as IPv4',
    src_port UInt16 COMMENT 'Port of the source',
    dst String COMMENT 'Address of the destination, IPv4 as IPv4',
    dst_port UInt16 COMMENT 'Port of the destination; for ICMP its type * 256 + code',
    protocol_name String COMMENT 'Name of the protocol, its number where it has none here',
    vlan UInt16 COMMENT 'VLAN id, 0 for none',
    service String COMMENT 'Name of the service, by its registered port; empty where unknown',
    application String COMMENT 'Name of the application, empty where unknown',
    server_name String COMMENT 'Server name the client asked for (TLS or HTTP)',
    dns_query String COMMENT 'First name asked in DNS',
    intervals UInt64 COMMENT 'Interval records that were added up',
    packets UInt64 COMMENT 'Packets, both directions',
    octets UInt64 COMMENT 'Layer-3 octets, both directions',
    fwd_packets UInt64 COMMENT 'Packets from source to destination',
    fwd_octets UInt64 COMMENT 'Layer-3 octets from source to destination',
    rev_packets UInt64 COMMENT 'Packets from destination to source',
    rev_octets UInt64 COMMENT 'Layer-3 octets from destination to source',
    fwd_tcp_syn UInt64 COMMENT 'SYN packets without ACK, source to destination',
    rev_tcp_synack UInt64 COMMENT 'SYN packets with ACK, destination to source',
    tcp_fin UInt64 COMMENT 'FIN packets, both directions',
    tcp_rst UInt64 COMMENT 'RST packets, both directions',
    tcp_retransmissions UInt64 COMMENT 'Segments sent again, both directions',
    tcp_handshake_rtt_us UInt32 COMMENT 'Round-trip time of the TCP handshake in microseconds, 0 where none was seen',
    icmp_errors UInt64 COMMENT 'ICMP errors among the packets',
    site_direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Which way the flow was opened, seen from the probe''s site',
    nation_direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Which way the flow was opened, seen from the nation',
    src_as UInt32 COMMENT 'Autonomous system of the source, 0 unknown',
    dst_as UInt32 COMMENT 'Autonomous system of the destination, 0 unknown',
    src_country String COMMENT 'Country of the source, two letters; empty where unknown',
    dst_country String COMMENT 'Country of the destination, two letters; empty where unknown',
    src_customer UInt32 COMMENT 'Customer of the source, by number; 0 none',
    dst_customer UInt32 COMMENT 'Customer of the destination, by number; 0 none',
    initiator_guess Bool COMMENT 'The source is a guess'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    f.probe AS probe, f.flow_start AS flow_start, max(f.last_seen) AS last_seen,
    dateDiff('millisecond', f.flow_start, max(f.last_seen)) / 1000 AS duration_s,
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
    any(f.src_customer) AS src_customer, any(f.dst_customer) AS dst_customer, max(f.initiator_guess) AS initiator_guess
FROM flows AS f
WHERE f.record_kind = 'flow'
GROUP BY f.probe, f.src_addr, f.dst_addr, f.src_port, f.dst_port, f.protocol, f.vlan, f.flow_start
COMMENT 'Whole connections: the interval records of each flow added up. Give a range of flow_start; overflow records are left out';

-- A flow's records are younger than its start: a question about a range of flow_start skips what is older.
ALTER TABLE flows ADD INDEX IF NOT EXISTS flow_start flow_start TYPE minmax GRANULARITY 1;
