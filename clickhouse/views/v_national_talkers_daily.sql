CREATE OR REPLACE VIEW v_national_talkers_daily
(
    day Date COMMENT 'Day, UTC',
    rank UInt16 COMMENT 'Rank by octets among the hosts of the list, from 1; 0: all hosts that are not in the list',
    LIKE national_talkers_daily (packets_rank, flows_rank),
    addr IPv6 COMMENT 'Address of the host as it is stored, IPv4 mapped; over long time spans group by addr, which is much faster than by host, and convert it to text with weir_addr(addr)',
    host String COMMENT 'Address of the host, IPv4 as IPv4; for a network such as 192.0.2.0/24; empty for the remainder',
    hosts UInt64 COMMENT 'Number of hosts that the row represents',
    probes UInt16 COMMENT 'Number of probes that saw the host',
    LIKE hosts (customer_id, customer, as_number, as_name, country, octets),
    packets UInt64 COMMENT 'Packets sent and received',
    LIKE national_talkers_daily (sent_packets, sent_octets, received_packets, received_octets, flows_begun, flows_received)
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    day, rank, packets_rank, flows_rank, addr, if(rank = 0, '', weir_addr_or_network(addr, network)) AS host, hosts, probes,
    INCLUDE talkers
FROM national_talkers_daily AS t
COMMENT 'Top 10,000 hosts of each day by octets, and 1,000 by packets and by flows, over all probes, each flow once, for ever, and the remainder. A host that is listed only on some days is counted only for those days; the current day is in hosts';
