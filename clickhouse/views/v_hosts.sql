-- Each flow record from both of its ends: octets and packets that a host sent and received. Adding up over all hosts
-- counts every packet twice. Overflow records name at most one end; the view leaves out the other.
CREATE OR REPLACE VIEW v_hosts
(
    ts DateTime('UTC') COMMENT 'Start of the interval',
    interval_ms UInt32 COMMENT 'Length of the interval in milliseconds',
    probe LowCardinality(String) COMMENT 'Name of the probe that saw the flow',
    LIKE v_host_peers (addr, host, sent_packets, sent_octets, received_packets, received_octets, packets, octets)
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    ts, interval_ms, probe, addr, weir_addr(h.addr) AS host, sent_packets, sent_octets, received_packets, received_octets,
    sent_packets + received_packets AS packets, sent_octets + received_octets AS octets
FROM
(
    SELECT ts, interval_ms, probe, addr, sent_packets, sent_octets, received_packets, received_octets
    FROM flows
    ARRAY JOIN
        [src_addr, dst_addr] AS addr,
        [fwd_packets, rev_packets] AS sent_packets, [fwd_octets, rev_octets] AS sent_octets,
        [rev_packets, fwd_packets] AS received_packets, [rev_octets, fwd_octets] AS received_octets
) AS h
WHERE addr != toIPv6('::')
COMMENT 'Traffic that each host sent and received, per flow record';
