-- Written by flink-jobs (io.weir.jobs.Definitions) from the declaration of the table; do not edit.

ALTER TABLE top_indicators
    MODIFY COLUMN list Enum8('syn_senders' = 1, 'scan_addresses_tcp' = 2, 'scan_addresses_udp' = 3, 'scan_addresses_icmp' = 4, 'scan_ports_tcp' = 5, 'scan_ports_udp' = 6, 'scan_failures' = 7, 'icmp_senders' = 8, 'icmp_causers' = 9, 'udp_work_weight' = 10) COMMENT 'What value counts. syn_senders: SYNs sent. scan_addresses: distinct destinations that the host began flows to. scan_ports: distinct destination ports. scan_failures: first contacts that were not answered, less those that were. icmp_senders: ICMP errors sent. icmp_causers: ICMP errors that came back for UDP. udp_work_weight: UDP packets sent * ICMP errors that came back for UDP';
