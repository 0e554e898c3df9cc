-- Written by flink-jobs (io.weir.jobs.Definitions) from the declaration of the table; do not edit.

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
