CREATE OR REPLACE VIEW v_talkers_daily
(
    LIKE talkers_daily (day, probe),
    LIKE v_national_talkers_daily (rank, packets_rank, flows_rank, addr, host, hosts, customer_id, customer, as_number, as_name, country, octets,
        packets, sent_packets, sent_octets, received_packets, received_octets, flows_begun, flows_received)
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    day, probe, rank, packets_rank, flows_rank, addr, if(rank = 0, '', weir_addr_or_network(addr, network)) AS host, hosts,
    INCLUDE talkers
FROM talkers_daily AS t
COMMENT 'Top 10,000 hosts of each probe and day by octets, and 1,000 by packets and by flows, for ever, and the remainder; the present day is in hosts';
