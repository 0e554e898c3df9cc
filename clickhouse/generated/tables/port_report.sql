-- Written by flink-jobs (io.weir.jobs.Definitions) from the declaration of the table; do not edit.

CREATE TABLE IF NOT EXISTS port_report
(
    ts               DateTime('UTC') COMMENT 'Start of the window' CODEC(Delta, ZSTD(1)),
    window_s         UInt16 COMMENT 'Length of the window in seconds',
    scope            Enum8('probe' = 1, 'all' = 2) COMMENT 'probe: what one probe saw. all: all probes, each flow once',
    probe            LowCardinality(String) COMMENT 'Name of the probe, empty for all',
    rank             UInt16 COMMENT 'Place by address, from 1: neighbours stand together',
    version          UInt32 COMMENT 'How often the window was computed; the highest holds',
    addr             IPv6 COMMENT 'Address of the host; IPv4 is mapped',
    customer         UInt32 COMMENT 'Customer of the host, 0 for none; names in prefixes',
    local            Bool COMMENT 'The host is at the probe''s site; over all: inside the nation',
    syn_sent         UInt64 COMMENT 'SYN packets sent by the host',
    synack_sent      UInt64 COMMENT 'SYN-ACK packets sent by the host',
    fin_sent         UInt64 COMMENT 'FIN packets sent by the host',
    rst_sent         UInt64 COMMENT 'RST packets sent by the host',
    syn_recv         UInt64 COMMENT 'SYN packets sent to the host',
    synack_recv      UInt64 COMMENT 'SYN-ACK packets sent to the host',
    fin_recv         UInt64 COMMENT 'FIN packets returned to the host',
    rst_recv         UInt64 COMMENT 'RST packets returned to the host',
    tcp_packets      UInt64 COMMENT 'All TCP packets to and from the host',
    tcp_sent         UInt64 COMMENT 'TCP packets from the host',
    work_weight      UInt16 COMMENT '100 * (syn_sent + fin_sent + rst_recv) / tcp_packets: 100 is only control and no data, peer-to-peer hosts are at 30 or less',
    sa_s             UInt16 COMMENT '100 * synack_sent / (syn_recv + syn_sent): near 100 a server, 0 a client, between peer to peer',
    l3d              UInt32 COMMENT 'Distinct addresses that the host sent TCP packets to',
    l4d              UInt32 COMMENT 'Distinct TCP ports that the host sent packets to',
    icmp_errors      UInt64 COMMENT 'ICMP errors sent to the host',
    flags            String COMMENT 'E: ICMP errors come back. W: work weight of 90 or more; w: of 50 or more. O: no FIN returned. R: RSTs returned. M: fewer data packets returned than SYNs sent',
    port_signature   String COMMENT 'The first 10 destination ports of what the host sent, ascending, each with its share of the packets in permille: 445:500,139:500. Hosts with the same one do the same scan',
    l4s              String COMMENT 'The first 10 source ports of what the host sent, with packets: 1025:3,1026:1',
    overflow_packets UInt64 COMMENT 'Of tcp_packets, what came in overflow records',
    l3d_error        UInt32 COMMENT 'l3d may be off by this much (overflow records tell distinct addresses by a sketch; three standard errors and what may be counted twice), 0: exact',
    probes_reported  UInt32 COMMENT 'Probes whose window was complete when the row was computed',
    probes_expected  UInt32 COMMENT 'Probes that were enrolled'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(ts)
ORDER BY (ts, window_s, scope, probe, rank)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'TCP port report: hosts with a work weight above 0, those with most control packets where there are too many; read v_port_report, which shows the newest version';
