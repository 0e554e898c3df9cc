-- Who behaves like a scanner, a worm or a victim, window by window: Ourmon's TCP port report and its lists.

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

CREATE TABLE IF NOT EXISTS indicators
(
    ts                   DateTime('UTC') COMMENT 'Start of the window' CODEC(Delta, ZSTD(1)),
    window_s             UInt16 COMMENT 'Length of the window in seconds',
    scope                Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: what one probe saw. all: all probes, each flow once. customer: of these, the hosts of one customer',
    probe                LowCardinality(String) COMMENT 'Name of the probe, empty for all and for customers',
    customer             UInt32 COMMENT 'Customer of scope customer, else 0; names in prefixes',
    rank                 UInt16 COMMENT 'Always 1',
    version              UInt32 COMMENT 'How often the window was computed; the highest holds',
    hosts                UInt64 COMMENT 'Distinct hosts of the window',
    report_hosts         UInt64 COMMENT 'Of these, with a work weight above 0: how long the port report would be without its limit',
    worms_us             UInt64 COMMENT 'Local hosts with a work weight of 40 or more and at least 10 SYNs',
    worms_them           UInt64 COMMENT 'Remote hosts likewise',
    udp_work_weight      UInt64 COMMENT 'Highest UDP work weight: UDP packets sent * ICMP errors that came back',
    udp_work_weight_addr IPv6 COMMENT 'The host that had it',
    scanners             UInt64 COMMENT 'Hosts with at least four more first contacts failed than answered',
    failed               UInt64 COMMENT 'Destinations that hosts tried to reach, and none of whose SYNs was answered in time; judged in this window',
    syn_sent             UInt64 COMMENT 'SYN packets sent by all hosts',
    tcp_packets          UInt64 COMMENT 'TCP packets of all hosts: each counts for its sender and its receiver',
    icmp_errors          UInt64 COMMENT 'ICMP errors sent by all hosts',
    overflow_packets     UInt64 COMMENT 'Packets of hosts that came in overflow records',
    one_way_packets      UInt64 COMMENT 'Packets of probes that see one direction only, left out of the port report',
    probes_reported      UInt32 COMMENT 'Probes whose window was complete when the row was computed',
    probes_expected      UInt32 COMMENT 'Probes that were enrolled'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(ts)
ORDER BY (ts, window_s, scope, probe, customer, rank)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Sums of indicators of each window: worm counts us and them, scanners, UDP work weight; read v_indicators, which shows the newest version';
