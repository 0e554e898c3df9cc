CREATE OR REPLACE VIEW hosts
(
    day Date COMMENT 'Day, UTC; the current day is incomplete',
    probe LowCardinality(String) COMMENT 'Name of the probe that saw the traffic',
    LIKE v_hourly (canonical),
    addr IPv6 COMMENT 'Address of the host as it is stored, IPv4 mapped: addr = ''192.0.2.1'', or weir_in(addr, ''192.0.2.0/24''); for a network its first address',
    host String COMMENT 'Address of the host, IPv4 as IPv4; for a network such as 192.0.2.0/24',
    network Bool COMMENT 'True if `host` is a network: it stands for all its addresses that did not answer',
    customer_id UInt32 COMMENT 'Customer of the host, by number; 0 none',
    customer String COMMENT 'Name of the customer, empty for none',
    as_number UInt32 COMMENT 'Autonomous system, 0 unknown',
    as_name String COMMENT 'Organisation that runs the autonomous system',
    country String COMMENT 'Country, two letters; empty where unknown',
    sent_packets UInt64 COMMENT 'Packets that the host sent',
    sent_octets UInt64 COMMENT 'Layer-3 octets that the host sent',
    received_packets UInt64 COMMENT 'Packets that the host received',
    received_octets UInt64 COMMENT 'Layer-3 octets that the host received',
    octets UInt64 COMMENT 'Layer-3 octets sent and received',
    flows_begun UInt64 COMMENT 'Flows that the host began',
    flows_received UInt64 COMMENT 'Flows that other hosts began to the host',
    syn_sent UInt64 COMMENT 'SYN packets that the host sent for flows that it began',
    unanswered UInt64 COMMENT 'Packets of unanswered connection attempts: sent by the host, or sent to the network'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    day, probe, NOT h.duplicate AS canonical, addr, weir_addr_or_network(h.addr, h.network) AS host, network,
    h.customer AS customer_id, dictGet('customer_names', 'customer', h.customer) AS customer,
    as_number, dictGet('autonomous_system_names', 'name', h.as_number) AS as_name, weir_country(h.country) AS country,
    sent_packets, sent_octets, received_packets, received_octets, sent_octets + received_octets AS octets,
    flows_begun, flows_received, syn_sent, unanswered
FROM hosts_daily AS h
COMMENT 'Traffic that each host sent and received on each day. Add up the rows of one day, WHERE canonical over several probes: they may not have been merged yet, and late records correct some. Over all hosts every packet is counted twice, for its sender and for its receiver';
