-- Written by flink-jobs (io.weir.jobs.Definitions) from the declaration of the table; do not edit.

CREATE TABLE IF NOT EXISTS top_indicators
(
    ts               DateTime('UTC') COMMENT 'Start of the window' CODEC(Delta, ZSTD(1)),
    window_s         UInt16 COMMENT 'Length of the window in seconds',
    scope            Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: what one probe saw. all: all probes, each flow once. customer: of these, the hosts of one customer',
    probe            LowCardinality(String) COMMENT 'Name of the probe, empty for all and for customers',
    customer         UInt32 COMMENT 'Customer of a customer''s list, else 0; names in prefixes',
    list             Enum8('syn_senders' = 1, 'scan_addresses_tcp' = 2, 'scan_addresses_udp' = 3, 'scan_addresses_icmp' = 4, 'scan_ports_tcp' = 5, 'scan_ports_udp' = 6, 'scan_failures' = 7, 'icmp_senders' = 8, 'icmp_causers' = 9, 'udp_work_weight' = 10) COMMENT 'What value counts. syn_senders: SYNs sent. scan_addresses: distinct destinations that the host began flows to. scan_ports: distinct destination ports. scan_failures: first contacts that were not answered, less those that were. icmp_senders: ICMP errors sent. icmp_causers: ICMP errors that came back for UDP. udp_work_weight: UDP packets sent * ICMP errors that came back for UDP',
    rank             UInt16 COMMENT 'Place in the list, from 1',
    version          UInt32 COMMENT 'How often the window was computed; the highest holds',
    addr             IPv6 COMMENT 'Address of the host; IPv4 is mapped',
    value            UInt64 COMMENT 'What puts the list in order',
    value_error      UInt64 COMMENT 'value may be off by this much, 0: exact',
    local            Bool COMMENT 'The host is at the probe''s site; over all: inside the nation',
    syn_sent         UInt64 COMMENT 'SYN packets sent by the host',
    fin_recv         UInt64 COMMENT 'FIN packets returned to the host',
    rst_recv         UInt64 COMMENT 'RST packets returned to the host',
    tcp_packets      UInt64 COMMENT 'All TCP packets to and from the host',
    work_weight      UInt16 COMMENT '100 * (syn_sent + fin_sent + rst_recv) / tcp_packets',
    udp_sent         UInt64 COMMENT 'UDP packets sent by the host',
    icmp_errors_sent UInt64 COMMENT 'ICMP errors sent by the host',
    icmp_errors_recv UInt64 COMMENT 'ICMP errors that came back to the host for its UDP packets',
    addresses        UInt32 COMMENT 'scan lists: distinct destinations that the host began flows to, of the list''s protocol',
    ports            UInt32 COMMENT 'scan lists: distinct destination ports of those flows',
    failed           UInt32 COMMENT 'Destinations none of whose SYNs was answered in time, judged in this window',
    answered         UInt32 COMMENT 'Destinations that answered a SYN, judged in this window. Four failures more than answers call a scanner (Jung and others, 2004)',
    overflow_packets UInt64 COMMENT 'Packets of the host that came in overflow records',
    probes_reported  UInt32 COMMENT 'Probes whose window was complete when the row was computed',
    probes_expected  UInt32 COMMENT 'Probes that were enrolled'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(ts)
ORDER BY (ts, window_s, scope, probe, customer, list, rank)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Top SYN senders, scanners, ICMP error senders and causers, UDP work weights of each window; read v_top_indicators, which shows the newest version';
