-- The largest hosts over all probes of each day: a year of them is some million rows, where the lists of 200 probes are
-- hundreds of millions. `weir storage roll-up` writes it from hosts_daily, as it writes talkers_daily.

CREATE TABLE IF NOT EXISTS national_talkers_daily
(
    day              Date COMMENT 'Day, UTC' CODEC(Delta, ZSTD(1)),
    rank             UInt16 COMMENT 'Place by octets sent and received, from 1; 0 for all that is not in the list' CODEC(T64, ZSTD(1)),
    addr             IPv6 COMMENT 'Address of the host, IPv4 mapped; for a network its first address; :: for the remainder' CODEC(ZSTD(1)),
    network          Bool COMMENT 'Not a host but a network that unanswered attempts went to' CODEC(ZSTD(1)),
    customer         UInt32 COMMENT 'Customer of the host, by number; 0 none' CODEC(ZSTD(1)),
    as_number        UInt32 COMMENT 'Autonomous system, 0 unknown' CODEC(ZSTD(1)),
    country          UInt16 COMMENT 'Country: first letter * 256 + second, 0 unknown' CODEC(ZSTD(1)),
    probes           UInt16 COMMENT 'Probes that saw it' CODEC(T64, ZSTD(1)),
    hosts            UInt64 COMMENT 'Hosts that the row stands for: 1, and in the remainder as many as are left' CODEC(T64, ZSTD(1)),
    sent_packets     UInt64 COMMENT 'Packets sent' CODEC(T64, ZSTD(1)),
    sent_octets      UInt64 COMMENT 'Layer-3 octets sent' CODEC(T64, ZSTD(1)),
    received_packets UInt64 COMMENT 'Packets received' CODEC(T64, ZSTD(1)),
    received_octets  UInt64 COMMENT 'Layer-3 octets received' CODEC(T64, ZSTD(1)),
    flows_begun      UInt64 COMMENT 'Flows that it began' CODEC(T64, ZSTD(1)),
    flows_received   UInt64 COMMENT 'Flows that others began to it' CODEC(T64, ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(day)
ORDER BY (day, rank)
SETTINGS non_replicated_deduplication_window = 1000, lightweight_mutation_projection_mode = 'rebuild'
COMMENT 'The 10,000 hosts with most octets of each day, what all probes saw of them added up, and a row for all others together (rank 0); read v_national_talkers_daily';

-- Days that were rolled up before are rolled up again, for this list as well.
ALTER TABLE roll_ups DELETE WHERE source = 'hosts_daily';
