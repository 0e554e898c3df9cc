-- The largest flows of each window. A window is written again, with a higher version, when later data changes it;
-- lists never shrink, so the newest version of each rank is the list.

CREATE TABLE IF NOT EXISTS top_flows
(
    ts              DateTime('UTC') COMMENT 'Start of the window' CODEC(Delta, ZSTD(1)),
    window_s        UInt16 COMMENT 'Length of the window in seconds',
    scope           Enum8('probe' = 1, 'all' = 2) COMMENT 'probe: the list of one probe. all: the list over all probes',
    probe           LowCardinality(String) COMMENT 'Name of the probe, empty for all',
    rank            UInt16 COMMENT 'Place in the list, from 1',
    version         UInt32 COMMENT 'How often the window was computed; the highest holds',
    src_addr        IPv6 COMMENT 'Address of the source; IPv4 is mapped',
    dst_addr        IPv6 COMMENT 'Address of the destination; IPv4 is mapped',
    src_port        UInt16 COMMENT 'Port of the source',
    dst_port        UInt16 COMMENT 'Port of the destination; for ICMP its type * 256 + code',
    protocol        UInt8 COMMENT 'IP protocol number',
    octets          UInt64 COMMENT 'Layer-3 octets of the flow in the window, both directions',
    packets         UInt64 COMMENT 'Packets of the flow in the window, both directions',
    fwd_octets      UInt64 COMMENT 'Layer-3 octets from source to destination',
    fwd_packets     UInt64 COMMENT 'Packets from source to destination',
    rev_octets      UInt64 COMMENT 'Layer-3 octets from destination to source',
    rev_packets     UInt64 COMMENT 'Packets from destination to source',
    window_octets   UInt64 COMMENT 'Layer-3 octets of all flows in the window: the whole of which octets is a share',
    window_packets  UInt64 COMMENT 'Packets of all flows in the window',
    window_flows    UInt64 COMMENT 'Distinct flows in the window',
    overflow_octets UInt64 COMMENT 'Of window_octets, what came in overflow records and so could be in no list',
    probes_reported UInt32 COMMENT 'Probes whose window was complete when the row was computed',
    probes_expected UInt32 COMMENT 'Probes that were enrolled'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(ts)
ORDER BY (ts, window_s, scope, probe, rank)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Top flows by octets for each window, per probe and over all; read v_top_flows, which shows the newest version';
