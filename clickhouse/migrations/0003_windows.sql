-- The windows: lists of flows, hosts, ports, AS and customers, mixes, and indicators of scanners and worms.
-- The jobs write a window again, with a higher version, when later data changes it; where a list becomes shorter, rows of
-- zeros stand at its end. So the newest version of each rank is the list.
--
-- The jobs declare these tables (`Definitions table NAME` prints the statements); lists that are added later get their
-- names from ../lists.

CREATE TABLE IF NOT EXISTS top_flows
(
    ts               DateTime('UTC') COMMENT 'Start of the window' CODEC(Delta, ZSTD(1)),
    window_s         UInt16 COMMENT 'Length of the window in seconds',
    scope            Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: the list of one probe. all: the list over all probes, each flow once. customer: the list of one customer, over all probes, each flow once',
    probe            LowCardinality(String) COMMENT 'Name of the probe, empty for all',
    customer         UInt32 COMMENT 'Customer if the list is a customer''s, else 0; names in prefixes',
    list             Enum8('ip_octets' = 1, 'ip_packets' = 2, 'tcp_octets' = 3, 'tcp_packets' = 4, 'udp_octets' = 5, 'udp_packets' = 6, 'icmp_octets' = 7, 'icmp_packets' = 8) COMMENT 'Flows in the list (ip: all protocols), and the value by which it is sorted',
    rank             UInt16 COMMENT 'Rank in the list, from 1',
    version          UInt32 COMMENT 'Number of times that the window was computed; the row with the highest number counts',
    src_addr         IPv6 COMMENT 'Address of the source; IPv4 is mapped',
    dst_addr         IPv6 COMMENT 'Address of the destination; IPv4 is mapped',
    src_port         UInt16 COMMENT 'Port of the source',
    dst_port         UInt16 COMMENT 'Port of the destination; for ICMP its type * 256 + code',
    protocol         UInt8 COMMENT 'IP protocol number',
    octets           UInt64 COMMENT 'Layer-3 octets of the flow in the window, both directions',
    packets          UInt64 COMMENT 'Packets of the flow in the window, both directions',
    fwd_octets       UInt64 COMMENT 'Layer-3 octets from source to destination',
    fwd_packets      UInt64 COMMENT 'Packets from source to destination',
    rev_octets       UInt64 COMMENT 'Layer-3 octets from destination to source',
    rev_packets      UInt64 COMMENT 'Packets from destination to source',
    window_octets    UInt64 COMMENT 'Layer-3 octets of all flows in the window, of which octets is a part',
    window_packets   UInt64 COMMENT 'Packets of all flows in the window',
    window_flows     UInt64 COMMENT 'Distinct flows in the window',
    overflow_octets  UInt64 COMMENT 'The part of window_octets that came in overflow records and therefore cannot be in a list',
    duplicate_octets UInt64 COMMENT 'Lists over all probes: octets left out because another probe''s observation of the same flow counts',
    error_octets     UInt64 COMMENT 'Upper bound of the octets that a listed flow may have in addition, and of the octets of a flow that is missing from the list, because windows had more flows than they keep (--window-flows). 0: exact',
    probes_reported  UInt32 COMMENT 'Probes whose window was complete when the row was computed',
    probes_expected  UInt32 COMMENT 'Probes that were enrolled'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(ts)
PRIMARY KEY (ts, window_s, scope, probe, rank)
ORDER BY (ts, window_s, scope, probe, rank, customer, list)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Top flows by octets for each window, per probe and over all; read v_top_flows, which shows the newest version';

CREATE TABLE IF NOT EXISTS top_talkers
(
    ts                     DateTime('UTC') COMMENT 'Start of the window' CODEC(Delta, ZSTD(1)),
    window_s               UInt16 COMMENT 'Length of the window in seconds',
    scope                  Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: traffic that one probe saw. all: all probes, each flow once. customer: traffic of one customer, over all probes, each flow once',
    probe                  LowCardinality(String) COMMENT 'Name of the probe, empty for all and for customers',
    customer               UInt32 COMMENT 'Customer if the list is a customer''s, else 0; names in prefixes',
    list                   Enum8('host_in' = 1, 'host_out' = 2, 'port_tcp' = 3, 'port_udp' = 4, 'as' = 5, 'customer' = 6) COMMENT 'host_in, host_out: hosts by traffic received, sent; in a customer''s list its own hosts. port_tcp, port_udp: ports of services by traffic both ways: that of the destination, or, if a probe missed the flow''s beginning, the registered one, else the lower one. as, customer: by traffic in and out',
    rank                   UInt16 COMMENT 'Rank by octets among the rows of the list, from 1: these are the largest by octets, by packets and by flows, each once',
    version                UInt32 COMMENT 'Number of times that the window was computed; the row with the highest number counts',
    packets_rank           UInt16 COMMENT 'Rank by packets, from 1; 0 if others have more',
    flows_rank             UInt16 COMMENT 'Rank by flows, from 1; 0 if others have more',
    addr                   IPv6 COMMENT 'Address of the host; IPv4 is mapped',
    number                 UInt32 COMMENT 'Port, AS number or customer',
    octets                 UInt64 COMMENT 'Layer-3 octets in and out',
    packets                UInt64 COMMENT 'Packets in and out',
    in_octets              UInt64 COMMENT 'Layer-3 octets received; for a port, sent to it',
    in_packets             UInt64 COMMENT 'Packets received',
    out_octets             UInt64 COMMENT 'Layer-3 octets sent; for a port, sent from it',
    out_packets            UInt64 COMMENT 'Packets sent',
    flows                  UInt64 COMMENT 'Distinct flows',
    overflow_octets        UInt64 COMMENT 'The part of octets that came in overflow records',
    window_octets          UInt64 COMMENT 'Layer-3 octets of the whole window and scope',
    window_packets         UInt64 COMMENT 'Packets of the whole window and scope',
    window_keys            UInt64 COMMENT 'Number of distinct hosts, ports, AS or customers in the window',
    window_overflow_octets UInt64 COMMENT 'The part of window_octets that came in overflow records, some of which name no host, port or AS',
    error_octets           UInt64 COMMENT '0: exact. Above 0: windows had more flows than they keep (--window-flows); overflow_octets then counts the aggregated traffic, and a host or port that is missing from the list had no flow with more octets than this',
    probes_reported        UInt32 COMMENT 'Probes whose window was complete when the row was computed',
    probes_expected        UInt32 COMMENT 'Probes that were enrolled'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(ts)
ORDER BY (ts, window_s, scope, probe, customer, list, rank)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Top hosts, ports, AS and customers of each window, per probe, per customer and over all; read v_top_talkers, which shows the newest version';

CREATE TABLE IF NOT EXISTS mixes
(
    ts                DateTime('UTC') COMMENT 'Start of the window' CODEC(Delta, ZSTD(1)),
    window_s          UInt32 COMMENT 'Length of the window in seconds',
    scope             Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: traffic that one probe saw; inside is its site. all: all probes, each flow once; inside is the nation. customer: traffic of one customer, over all probes, each flow once; inside is the customer',
    probe             LowCardinality(String) COMMENT 'Name of the probe, empty for all and for customers',
    customer          UInt32 COMMENT 'Customer for scope customer, else 0; names in prefixes',
    dimension         Enum8('total' = 1, 'application' = 2, 'as' = 3, 'country' = 4, 'customer' = 5, 'as_application' = 6) COMMENT 'Dimension of the row. as, country: those of the outside end; if there is none, of the sender. customer: that of the inside end; if there is none, of the sender. as_application: each pair of such an AS and an application',
    direction         Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Direction of the packets: in is from outside to inside. unknown: no prefix is declared as inside',
    rank              UInt16 COMMENT 'Rank by octets, from 1; the remainder comes last',
    version           UInt32 COMMENT 'Number of times that the window was computed; the row with the highest number counts',
    number            UInt32 COMMENT 'Application, AS, country (first letter * 256 + second) or customer; 0 unknown or none',
    application       UInt16 COMMENT 'Dimension as_application: the application of the pair, whose AS is number; 0 unknown. 0 in all other dimensions',
    remainder         Bool COMMENT 'True for the row that sums all values without a row of their own',
    octets            UInt64 COMMENT 'Layer-3 octets',
    packets           UInt64 COMMENT 'Packets',
    flows             UInt64 COMMENT 'Flows that began in the window: in and out each count those that had packets in this direction in the 30 seconds in which they began, the other directions count each once; summed over windows, they give all flows of the direction',
    ipv4_octets       UInt64 COMMENT 'IPv4 part of octets',
    ipv4_packets      UInt64 COMMENT 'IPv4 part of packets',
    ipv4_flows        UInt64 COMMENT 'IPv4 part of flows',
    ipv6_octets       UInt64 COMMENT 'IPv6 part of octets',
    ipv6_packets      UInt64 COMMENT 'IPv6 part of packets',
    ipv6_flows        UInt64 COMMENT 'IPv6 part of flows',
    overflow_octets   UInt64 COMMENT 'The part of octets that came in overflow records',
    direction_octets  UInt64 COMMENT 'Layer-3 octets of the window, scope and direction, of which octets is a part',
    direction_packets UInt64 COMMENT 'Packets of the window, scope and direction',
    direction_flows   UInt64 COMMENT 'Flows of the window, scope and direction',
    probes_reported   UInt32 COMMENT 'Probes whose window was complete when the row was computed',
    probes_expected   UInt32 COMMENT 'Probes that were enrolled'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(ts)
ORDER BY (ts, window_s, scope, probe, customer, dimension, direction, rank)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Totals, and shares of applications, AS, countries, customers, and AS with application, of each window, per probe, per customer and over all; read v_mixes, which shows the newest version';

-- Hosts that behave like scanners, worms or victims: Ourmon's TCP port report and its lists.

CREATE TABLE IF NOT EXISTS port_report
(
    ts               DateTime('UTC') COMMENT 'Start of the window' CODEC(Delta, ZSTD(1)),
    window_s         UInt16 COMMENT 'Length of the window in seconds',
    scope            Enum8('probe' = 1, 'all' = 2) COMMENT 'probe: traffic that one probe saw. all: all probes, each flow once',
    probe            LowCardinality(String) COMMENT 'Name of the probe, empty for all',
    rank             UInt16 COMMENT 'Rank by address, from 1, so that neighbouring addresses are adjacent',
    version          UInt32 COMMENT 'Number of times that the window was computed; the row with the highest number counts',
    addr             IPv6 COMMENT 'Address of the host; IPv4 is mapped',
    customer         UInt32 COMMENT 'Customer of the host, 0 for none; names in prefixes',
    local            Bool COMMENT 'True if the host is at the probe''s site or, over all probes, inside the nation',
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
    work_weight      UInt16 COMMENT '100 * (syn_sent + fin_sent + rst_recv) / tcp_packets: 100 means control packets without data; peer-to-peer hosts are at 30 or less',
    sa_s             UInt16 COMMENT '100 * synack_sent / (syn_recv + syn_sent): near 100 for a server, 0 for a client, in between for a peer-to-peer host',
    l3d              UInt32 COMMENT 'Distinct addresses that the host sent TCP packets to',
    l4d              UInt32 COMMENT 'Distinct TCP ports that the host sent packets to',
    icmp_errors      UInt64 COMMENT 'ICMP errors sent to the host',
    flags            String COMMENT 'E: ICMP errors come back. W: work weight of 90 or more; w: of 50 or more. O: no FIN returned. R: RSTs returned. M: fewer data packets returned than SYNs sent',
    port_signature   String COMMENT 'The first 10 destination ports of the host''s packets, ascending, each with its share of the packets in permille: 445:500,139:500. Hosts with the same signature take part in the same scan',
    l4s              String COMMENT 'The first 10 source ports of the host''s packets, with the number of packets: 1025:3,1026:1',
    overflow_packets UInt64 COMMENT 'The part of tcp_packets that came in overflow records',
    l3d_error        UInt32 COMMENT 'Error bound of l3d, 0: exact. Overflow records estimate distinct addresses by a sketch: the bound is three standard errors, plus the addresses that may be counted twice',
    probes_reported  UInt32 COMMENT 'Probes whose window was complete when the row was computed',
    probes_expected  UInt32 COMMENT 'Probes that were enrolled'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(ts)
ORDER BY (ts, window_s, scope, probe, rank)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'TCP port report: hosts with a work weight above 0, those with the highest if there are too many; read v_port_report, which shows the newest version';

CREATE TABLE IF NOT EXISTS top_indicators
(
    ts               DateTime('UTC') COMMENT 'Start of the window' CODEC(Delta, ZSTD(1)),
    window_s         UInt16 COMMENT 'Length of the window in seconds',
    scope            Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: traffic that one probe saw. all: all probes, each flow once. customer: hosts of one customer, over all probes, each flow once',
    probe            LowCardinality(String) COMMENT 'Name of the probe, empty for all and for customers',
    customer         UInt32 COMMENT 'Customer if the list is a customer''s, else 0; names in prefixes',
    list             Enum8('syn_senders' = 1, 'scan_addresses_tcp' = 2, 'scan_addresses_udp' = 3, 'scan_addresses_icmp' = 4, 'scan_ports_tcp' = 5, 'scan_ports_udp' = 6, 'scan_failures' = 7, 'icmp_senders' = 8, 'icmp_causers' = 9, 'udp_work_weight' = 10, 'udp_unanswered' = 11) COMMENT 'Meaning of value. syn_senders: SYNs sent. scan_addresses: distinct destinations that the host began flows to. scan_ports: distinct destination ports. scan_failures: failed first contacts minus answered ones. icmp_senders: ICMP errors sent. icmp_causers: ICMP errors that came back for UDP. udp_work_weight: UDP packets sent * ICMP errors that came back for UDP. udp_unanswered: UDP packets sent in flows that had no answer in the window',
    rank             UInt16 COMMENT 'Rank in the list, from 1',
    version          UInt32 COMMENT 'Number of times that the window was computed; the row with the highest number counts',
    addr             IPv6 COMMENT 'Address of the host; IPv4 is mapped',
    value            UInt64 COMMENT 'Value by which the list is sorted',
    value_error      UInt64 COMMENT 'Error bound of value, 0: exact',
    local            Bool COMMENT 'True if the host is at the probe''s site or, over all probes, inside the nation',
    syn_sent         UInt64 COMMENT 'SYN packets sent by the host',
    fin_recv         UInt64 COMMENT 'FIN packets returned to the host',
    rst_recv         UInt64 COMMENT 'RST packets returned to the host',
    tcp_packets      UInt64 COMMENT 'All TCP packets to and from the host',
    work_weight      UInt16 COMMENT '100 * (syn_sent + fin_sent + rst_recv) / tcp_packets',
    udp_sent         UInt64 COMMENT 'UDP packets sent by the host',
    icmp_errors_sent UInt64 COMMENT 'ICMP errors sent by the host',
    icmp_errors_recv UInt64 COMMENT 'ICMP errors that came back to the host for its UDP packets',
    addresses        UInt32 COMMENT 'Scan lists: distinct destinations to which the host began flows of the list''s protocol',
    ports            UInt32 COMMENT 'Scan lists: distinct destination ports of the flows of the list''s protocol that the host began',
    failed           UInt32 COMMENT 'Destinations that answered none of the host''s SYNs in time, judged in this window',
    answered         UInt32 COMMENT 'Destinations that answered a SYN of the host, judged in this window. A host with at least four more failures than answers is a scanner (Jung and others, 2004)',
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
    scope                Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: traffic that one probe saw. all: all probes, each flow once. customer: hosts of one customer, over all probes, each flow once',
    probe                LowCardinality(String) COMMENT 'Name of the probe, empty for all and for customers',
    customer             UInt32 COMMENT 'Customer for scope customer, else 0; names in prefixes',
    rank                 UInt16 COMMENT 'Always 1',
    version              UInt32 COMMENT 'Number of times that the window was computed; the row with the highest number counts',
    hosts                UInt64 COMMENT 'Distinct hosts of the window',
    report_hosts         UInt64 COMMENT 'Distinct hosts with a work weight above 0: the length that the port report would have without its limit',
    worms_us             UInt64 COMMENT 'Local hosts with a work weight of 40 or more and at least 10 SYNs',
    worms_them           UInt64 COMMENT 'Remote hosts with a work weight of 40 or more and at least 10 SYNs',
    udp_work_weight      UInt64 COMMENT 'Highest UDP work weight: UDP packets sent * ICMP errors that came back',
    udp_work_weight_addr IPv6 COMMENT 'The host with this udp_work_weight',
    scanners             UInt64 COMMENT 'Hosts whose failed first contacts outnumber the answered ones by four or more',
    failed               UInt64 COMMENT 'Destinations that answered none of the SYNs of a host in time, summed over the hosts; judged in this window',
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
