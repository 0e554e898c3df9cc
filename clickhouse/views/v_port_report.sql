-- Written by flink-jobs (io.weir.jobs.Definitions) from the declaration of the table; do not edit.

CREATE OR REPLACE VIEW v_port_report
(
    LIKE port_report (ts, window_s, scope, probe, rank),
    LIKE v_top_flows (version),
    LIKE port_report (addr),
    host String COMMENT 'Address of the host, IPv4 as IPv4',
    customer_id UInt32 COMMENT 'Customer of the host, by number; 0 none',
    LIKE v_top_flows (customer),
    LIKE port_report (local, syn_sent, synack_sent, fin_sent, rst_sent, syn_recv, synack_recv, fin_recv, rst_recv,
        tcp_packets, tcp_sent, work_weight, sa_s, l3d, l4d, icmp_errors, flags, port_signature, l4s, overflow_packets,
        l3d_error, probes_reported, probes_expected)
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    t.ts AS ts, t.window_s AS window_s, t.scope AS scope, t.probe AS probe, t.rank AS rank, t.version AS version,
    t.addr AS addr, weir_addr(t.addr) AS host, t.customer AS customer_id,
    dictGet('customer_names', 'customer', t.customer) AS customer, t.local AS local, t.syn_sent AS syn_sent,
    t.synack_sent AS synack_sent, t.fin_sent AS fin_sent, t.rst_sent AS rst_sent, t.syn_recv AS syn_recv,
    t.synack_recv AS synack_recv, t.fin_recv AS fin_recv, t.rst_recv AS rst_recv, t.tcp_packets AS tcp_packets,
    t.tcp_sent AS tcp_sent, t.work_weight AS work_weight, t.sa_s AS sa_s, t.l3d AS l3d, t.l4d AS l4d,
    t.icmp_errors AS icmp_errors, t.flags AS flags, t.port_signature AS port_signature, t.l4s AS l4s,
    t.overflow_packets AS overflow_packets, t.l3d_error AS l3d_error, t.probes_reported AS probes_reported,
    t.probes_expected AS probes_expected
FROM port_report AS t FINAL
WHERE t.tcp_packets > 0
COMMENT 'TCP port report: hosts with a work weight above 0 in ascending order of addresses; the newest version';
