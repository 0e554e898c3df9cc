-- Written by flink-jobs (io.weir.jobs.Definitions) from the declaration of the table; do not edit.

ALTER TABLE top_flows
    MODIFY COLUMN list Enum8('ip_octets' = 1, 'ip_packets' = 2, 'tcp_octets' = 3, 'tcp_packets' = 4, 'udp_octets' = 5, 'udp_packets' = 6, 'icmp_octets' = 7, 'icmp_packets' = 8) COMMENT 'Flows in the list (ip: all protocols), and the value by which it is sorted';
