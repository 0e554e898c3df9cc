-- Groups the hosts that take part in the same scan.
CREATE OR REPLACE VIEW v_signatures
(
    LIKE port_report (ts, window_s, scope, probe),
    port_signature String COMMENT 'Destination ports with their share in permille, as in v_port_report',
    hosts UInt64 COMMENT 'Hosts that have it',
    hosts_local UInt64 COMMENT 'Of these, local ones',
    first_hosts Array(String) COMMENT 'The first ten of these hosts by address',
    syn_sent UInt64 COMMENT 'SYN packets that these hosts sent',
    addresses UInt64 COMMENT 'Distinct addresses that each host sent to, added up over the hosts',
    work_weight UInt16 COMMENT 'The highest work weight among these hosts',
    flags Array(String) COMMENT 'The port-report flags that these hosts have'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    t.ts AS ts, t.window_s AS window_s, t.scope AS scope, t.probe AS probe, t.port_signature AS port_signature,
    count() AS hosts, countIf(t.local) AS hosts_local,
    arrayMap(a -> weir_addr(a), arraySlice(arraySort(groupArray(t.addr)), 1, 10)) AS first_hosts,
    sum(t.syn_sent) AS syn_sent, sum(t.l3d) AS addresses, max(t.work_weight) AS work_weight,
    arraySort(groupUniqArray(t.flags)) AS flags
FROM port_report AS t FINAL
WHERE t.tcp_packets > 0
GROUP BY t.ts, t.window_s, t.scope, t.probe, t.port_signature
COMMENT 'Port signatures of the TCP port report, and the hosts that share each: the same on several hosts is one scan';
