-- In both copies the sorting key finds the rows: a few granules for each week.
CREATE OR REPLACE VIEW v_network
AS SELECT
    ts, probe, NOT n.duplicate AS canonical, side,
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
        ts, probe, duplicate, 'source' AS side, src_addr AS addr, dst_addr AS peer_addr, folded, protocol, port, application_id,
        dst_as AS peer_as, dst_country AS peer_country_code, flows,
        fwd_packets AS sent_packets, fwd_octets AS sent_octets, rev_packets AS received_packets, rev_octets AS received_octets,
        fwd_tcp_syn, rev_tcp_rst
    FROM flows_hourly
    WHERE src_addr BETWEEN weir_first({network:String}) AND weir_last({network:String})
    UNION ALL
    SELECT
        ts, probe, duplicate, 'destination' AS side, dst_addr AS addr, src_addr AS peer_addr, folded, protocol, port, application_id,
        src_as AS peer_as, src_country AS peer_country_code, flows,
        rev_packets AS sent_packets, rev_octets AS sent_octets, fwd_packets AS received_packets, fwd_octets AS received_octets,
        fwd_tcp_syn, rev_tcp_rst
    FROM flows_hourly_by_destination
    WHERE dst_addr BETWEEN weir_first({network:String}) AND weir_last({network:String})
        OR (folded AND dst_addr = weir_network(weir_first({network:String}), if(weir_is_ipv4(weir_first({network:String})), 4, 6)))
) AS n
COMMENT 'Hourly records of one address or prefix on either side: SELECT … FROM v_network(network = ''192.0.2.0/24''), WHERE canonical over several probes. Traffic inside of the prefix has two rows, one for each end; unanswered attempts to the /24 or /48 around it are shown with that network as host';
