-- Written by flink-jobs (io.weir.jobs.Definitions) from the declaration of the table; do not edit.

CREATE OR REPLACE VIEW v_indicators
(
    LIKE indicators (ts, window_s, scope, probe),
    LIKE v_top_flows (customer_id, customer, version),
    LIKE indicators (hosts, report_hosts, worms_us, worms_them, udp_work_weight),
    udp_work_weight_host String COMMENT 'The host with this udp_work_weight, empty for none',
    LIKE indicators (scanners, failed, syn_sent, tcp_packets, icmp_errors, overflow_packets, one_way_packets,
        probes_reported, probes_expected)
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    t.ts AS ts, t.window_s AS window_s, t.scope AS scope, t.probe AS probe, t.customer AS customer_id,
    dictGet('customer_names', 'customer', t.customer) AS customer, t.version AS version, t.hosts AS hosts,
    t.report_hosts AS report_hosts, t.worms_us AS worms_us, t.worms_them AS worms_them,
    t.udp_work_weight AS udp_work_weight,
    if(t.udp_work_weight = 0, '', weir_addr(t.udp_work_weight_addr)) AS udp_work_weight_host, t.scanners AS scanners,
    t.failed AS failed, t.syn_sent AS syn_sent, t.tcp_packets AS tcp_packets, t.icmp_errors AS icmp_errors,
    t.overflow_packets AS overflow_packets, t.one_way_packets AS one_way_packets,
    t.probes_reported AS probes_reported, t.probes_expected AS probes_expected
FROM indicators AS t FINAL
WHERE 1
COMMENT 'Indicators of each window (local and remote worm counts, scanners, UDP work weight), newest version';
