-- Written by flink-jobs (io.weir.jobs.Definitions) from the declaration of the table; do not edit.

CREATE OR REPLACE VIEW v_top_indicators
(
    LIKE top_indicators (ts, window_s, scope, probe),
    LIKE v_top_flows (customer_id, customer),
    LIKE top_indicators (list, rank),
    LIKE v_top_flows (version),
    LIKE top_indicators (addr),
    LIKE v_port_report (host),
    LIKE top_indicators (value, value_error, local, syn_sent, fin_recv, rst_recv, tcp_packets, work_weight, udp_sent,
        icmp_errors_sent, icmp_errors_recv, addresses, ports, failed, answered, overflow_packets, probes_reported,
        probes_expected),
    scanner Bool COMMENT 'At least four more first contacts failed than were answered'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    t.ts AS ts, t.window_s AS window_s, t.scope AS scope, t.probe AS probe, t.customer AS customer_id,
    dictGet('customer_names', 'customer', t.customer) AS customer, t.list AS list, t.rank AS rank,
    t.version AS version, t.addr AS addr, weir_addr(t.addr) AS host, t.value AS value, t.value_error AS value_error,
    t.local AS local, t.syn_sent AS syn_sent, t.fin_recv AS fin_recv, t.rst_recv AS rst_recv,
    t.tcp_packets AS tcp_packets, t.work_weight AS work_weight, t.udp_sent AS udp_sent,
    t.icmp_errors_sent AS icmp_errors_sent, t.icmp_errors_recv AS icmp_errors_recv, t.addresses AS addresses,
    t.ports AS ports, t.failed AS failed, t.answered AS answered, t.overflow_packets AS overflow_packets,
    t.probes_reported AS probes_reported, t.probes_expected AS probes_expected, t.failed >= t.answered + 4 AS scanner
FROM top_indicators AS t FINAL
WHERE t.value > 0
COMMENT 'Top SYN senders, scanners, ICMP error senders and causers, UDP work weights: the newest version of each list';
