-- In both copies the sorting key finds the rows: a few granules for each week.
CREATE OR REPLACE VIEW v_network
AS SELECT
    ts, probe, NOT n.duplicate AS canonical, side, addr,
    weir_addr_or_network(n.addr, folded AND side = 'destination') AS host,
    weir_addr_or_network(peer_addr, folded AND side = 'source') AS peer,
    folded, weir_protocol_name(protocol) AS protocol_name, port,
    dictGet('service_names', 'name', (n.port, n.protocol)) AS service,
    dictGet('application_names', 'name', toUInt64(n.application_id)) AS application,
    if(side = 'source', n.dst_as, n.src_as) AS peer_as, dictGet('autonomous_system_names', 'name', peer_as) AS peer_as_name,
    weir_country(if(side = 'source', n.dst_country, n.src_country)) AS peer_country, flows,
    if(side = 'source', n.fwd_packets, n.rev_packets) AS sent_packets, if(side = 'source', n.fwd_octets, n.rev_octets) AS sent_octets,
    if(side = 'source', n.rev_packets, n.fwd_packets) AS received_packets, if(side = 'source', n.rev_octets, n.fwd_octets) AS received_octets,
    sent_packets + received_packets AS packets, sent_octets + received_octets AS octets, fwd_tcp_syn, rev_tcp_rst
FROM
(
    SELECT *, 'source' AS side, src_addr AS addr, dst_addr AS peer_addr FROM flows_hourly
    WHERE src_addr BETWEEN weir_first({network:String}) AND weir_last({network:String})
    UNION ALL
    SELECT *, 'destination' AS side, dst_addr AS addr, src_addr AS peer_addr FROM flows_hourly_by_destination
    WHERE dst_addr BETWEEN weir_first({network:String}) AND weir_last({network:String})
        OR (folded AND dst_addr = weir_network(weir_first({network:String}), if(weir_is_ipv4(weir_first({network:String})), 4, 6)))
) AS n
COMMENT 'Hourly records of one address or prefix on either side: SELECT … FROM v_network(network = ''192.0.2.0/24''), over several probes WHERE canonical. Traffic inside the prefix has two rows, one for each end; unanswered attempts to the /24 or /48 around it are shown with that network as host';
