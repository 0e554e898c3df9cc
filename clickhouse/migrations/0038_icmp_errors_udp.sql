-- One record of ICMP errors may quote packets of several protocols; the UDP work weight counts those that quote UDP.

ALTER TABLE flows
    ADD COLUMN IF NOT EXISTS fwd_icmp_errors_udp UInt32 COMMENT 'The part of fwd_icmp_errors that quotes a UDP packet' CODEC(T64, ZSTD(1)) AFTER rev_icmp_errors,
    ADD COLUMN IF NOT EXISTS rev_icmp_errors_udp UInt32 COMMENT 'The part of rev_icmp_errors that quotes a UDP packet' CODEC(T64, ZSTD(1)) AFTER fwd_icmp_errors_udp;
