-- Written by flink-jobs (io.weir.jobs.Definitions) from the declaration of the table; do not edit.

CREATE TABLE IF NOT EXISTS top_talkers
(
    ts                     DateTime('UTC') COMMENT 'Start of the window' CODEC(Delta, ZSTD(1)),
    window_s               UInt16 COMMENT 'Length of the window in seconds',
    scope                  Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: what one probe saw. all: all probes, each flow once. customer: of these, what one customer had',
    probe                  LowCardinality(String) COMMENT 'Name of the probe, empty for all and for customers',
    customer               UInt32 COMMENT 'Customer of a customer''s list, else 0; names in prefixes',
    list                   Enum8('host_in' = 1, 'host_out' = 2, 'port_tcp' = 3, 'port_udp' = 4, 'as' = 5, 'customer' = 6) COMMENT 'host_in, host_out: hosts by octets received, sent; in a customer''s list its own hosts. port_tcp, port_udp: destination ports by octets both ways. as, customer: by octets in and out',
    rank                   UInt16 COMMENT 'Place in the list, from 1',
    version                UInt32 COMMENT 'How often the window was computed; the highest holds',
    addr                   IPv6 COMMENT 'Address of the host; IPv4 is mapped',
    number                 UInt32 COMMENT 'Port, AS number or customer',
    octets                 UInt64 COMMENT 'Layer-3 octets in and out',
    packets                UInt64 COMMENT 'Packets in and out',
    in_octets              UInt64 COMMENT 'Layer-3 octets received; for a port, sent to it',
    in_packets             UInt64 COMMENT 'Packets received',
    out_octets             UInt64 COMMENT 'Layer-3 octets sent; for a port, sent from it',
    out_packets            UInt64 COMMENT 'Packets sent',
    flows                  UInt64 COMMENT 'Distinct flows',
    overflow_octets        UInt64 COMMENT 'Of octets, what came in overflow records',
    window_octets          UInt64 COMMENT 'Layer-3 octets of the whole window and scope',
    window_packets         UInt64 COMMENT 'Packets of the whole window and scope',
    window_keys            UInt64 COMMENT 'How many hosts, ports, AS or customers there were',
    window_overflow_octets UInt64 COMMENT 'Of window_octets, what came in overflow records: some of it names no host, port or AS',
    error_octets           UInt64 COMMENT 'Above 0 where windows had more flows than they keep (--window-flows): then overflow_octets says how much was added up, and a host or port that is missing had no flow above this',
    probes_reported        UInt32 COMMENT 'Probes whose window was complete when the row was computed',
    probes_expected        UInt32 COMMENT 'Probes that were enrolled'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(ts)
ORDER BY (ts, window_s, scope, probe, customer, list, rank)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Top hosts, ports, AS and customers of each window, per probe, per customer and over all; read v_top_talkers, which shows the newest version';
