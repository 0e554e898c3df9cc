CREATE OR REPLACE VIEW v_national_talkers_daily
(
    day Date COMMENT 'Day, UTC',
    rank UInt16 COMMENT 'Place by octets, from 1; 0: all hosts that are not in the list',
    addr IPv6 COMMENT 'Address of the host as it is stored, IPv4 mapped; group by it over long spans, which is much faster than by host, and make text of it with weir_addr(addr)',
    host String COMMENT 'Address of the host, IPv4 as IPv4; for a network such as 192.0.2.0/24; empty for the remainder',
    hosts UInt64 COMMENT 'Hosts that the row stands for',
    probes UInt16 COMMENT 'Probes that saw it; where several see the same flow, each counts it',
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
    day, rank, addr, if(rank = 0, '', weir_addr_or_network(addr, network)) AS host, hosts, probes,
    customer, dictGet('customer_names', 'customer', t.customer) AS customer_name,
    as_number, dictGet('autonomous_system_names', 'name', t.as_number) AS as_name, weir_country(t.country) AS country,
    sent_octets + received_octets AS octets, sent_packets + received_packets AS packets,
    sent_packets, sent_octets, received_packets, received_octets, flows_begun, flows_received
FROM national_talkers_daily AS t
COMMENT 'Top 10,000 hosts of each day over all probes, for ever, and the remainder. A host that is in the list on some days alone is counted for those; the present day is in hosts';
