-- Groups the hosts that take part in the same scan: those that sent to the same ports. Their shares differ a little from host to
-- host, and a port with less than a hundredth of the largest share is noise.
CREATE OR REPLACE VIEW v_signatures
(
    LIKE port_report (ts, window_s, scope, probe),
    ports String COMMENT 'Destination ports that these hosts have in common, without those whose share is less than a hundredth of the largest: 22,2222',
    port_signature String COMMENT 'The same ports, each with its share in permille, a mean over these hosts: 22:500,2222:500',
    hosts UInt64 COMMENT 'Hosts that have these ports',
    hosts_local UInt64 COMMENT 'Of these, local ones',
    first_hosts Array(String) COMMENT 'The first ten of these hosts by address',
    syn_sent UInt64 COMMENT 'SYN packets that these hosts sent',
    addresses UInt64 COMMENT 'Distinct addresses that each host sent to, added up over the hosts',
    work_weight UInt16 COMMENT 'The highest work weight among these hosts',
    flags Array(String) COMMENT 'The port-report flags that these hosts have'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    t.ts AS ts, t.window_s AS window_s, t.scope AS scope, t.probe AS probe,
    arrayStringConcat(t.kept.1, ',') AS ports,
    arrayStringConcat(arrayMap((port, share) -> concat(port, ':', toString(round(share))), t.kept.1, avgForEach(t.kept.2)), ',') AS port_signature,
    count() AS hosts, countIf(t.local) AS hosts_local,
    arrayMap(a -> weir_addr(a), arraySlice(arraySort(groupArray(t.addr)), 1, 10)) AS first_hosts,
    sum(t.syn_sent) AS syn_sent, sum(t.l3d) AS addresses, max(t.work_weight) AS work_weight,
    arraySort(groupUniqArray(t.flags)) AS flags
FROM
(
    SELECT
        *, arrayMap(part -> splitByChar(':', part), splitByChar(',', port_signature)) AS parts,
        arrayMap(part -> (part[1], toUInt16OrZero(part[2])), parts) AS shares,
        arrayFilter(share -> share.1 != '' AND share.2 * 100 >= arrayMax(shares.2), shares) AS kept
    FROM port_report FINAL
    WHERE tcp_packets > 0
) AS t
GROUP BY t.ts, t.window_s, t.scope, t.probe, t.kept.1
COMMENT 'Port signatures of the TCP port report, and the hosts that share each: the same ports on several hosts are one scan';
