CREATE OR REPLACE VIEW v_indicators
(
    ts DateTime('UTC') COMMENT 'Start of the window',
    window_s UInt16 COMMENT 'Length of the window in seconds',
    scope Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: what one probe saw. all: all probes, each flow once. customer: of these, the hosts of one customer',
    probe LowCardinality(String) COMMENT 'Name of the probe, empty for all and for customers',
    customer UInt32 COMMENT 'Customer of scope customer, else 0; names in prefixes',
    customer_name String COMMENT 'Name of the customer',
    version UInt32 COMMENT 'How often the window was computed; the newest is shown',
    hosts UInt64 COMMENT 'Distinct hosts of the window',
    report_hosts UInt64 COMMENT 'Of these, with a work weight above 0: how long the port report would be without its limit',
    worms_us UInt64 COMMENT 'Local hosts with a work weight of 40 or more and at least 10 SYNs',
    worms_them UInt64 COMMENT 'Remote hosts likewise',
    udp_work_weight UInt64 COMMENT 'Highest UDP work weight: UDP packets sent * ICMP errors that came back',
    udp_work_weight_host String COMMENT 'The host that had it, empty for none',
    scanners UInt64 COMMENT 'Hosts with at least four more first contacts failed than answered',
    failed UInt64 COMMENT 'Destinations that hosts tried to reach, and none of whose SYNs was answered in time; judged in this window',
    syn_sent UInt64 COMMENT 'SYN packets sent by all hosts',
    tcp_packets UInt64 COMMENT 'TCP packets of all hosts: each counts for its sender and its receiver',
    icmp_errors UInt64 COMMENT 'ICMP errors sent by all hosts',
    overflow_packets UInt64 COMMENT 'Packets of hosts that came in overflow records',
    one_way_packets UInt64 COMMENT 'Packets of probes that see one direction only, left out of the port report',
    probes_reported UInt32 COMMENT 'Probes whose window was complete when the row was computed',
    probes_expected UInt32 COMMENT 'Probes that were enrolled'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    t.ts AS ts,
    t.window_s AS window_s,
    t.scope AS scope,
    t.probe AS probe,
    t.customer AS customer,
    dictGet('customer_names', 'customer', t.customer) AS customer_name,
    t.version AS version,
    t.hosts AS hosts,
    t.report_hosts AS report_hosts,
    t.worms_us AS worms_us,
    t.worms_them AS worms_them,
    t.udp_work_weight AS udp_work_weight,
    if(t.udp_work_weight = 0, '', weir_addr(t.udp_work_weight_addr)) AS udp_work_weight_host,
    t.scanners AS scanners,
    t.failed AS failed,
    t.syn_sent AS syn_sent,
    t.tcp_packets AS tcp_packets,
    t.icmp_errors AS icmp_errors,
    t.overflow_packets AS overflow_packets,
    t.one_way_packets AS one_way_packets,
    t.probes_reported AS probes_reported,
    t.probes_expected AS probes_expected
FROM indicators AS t FINAL
WHERE 1
COMMENT 'Worm counts us and them, scanners, UDP work weight of each window: the newest version';
