-- What routers know of flows, translations of addresses, counters and names of interfaces.

ALTER TABLE flows
    ADD COLUMN IF NOT EXISTS routed_src_as UInt32 COMMENT 'Autonomous system of the source as the exporter''s routing table has it, 0 unknown; src_as is that of Weir''s own table' CODEC(ZSTD(1)) AFTER output_interface,
    ADD COLUMN IF NOT EXISTS routed_dst_as UInt32 COMMENT 'Autonomous system of the destination, likewise' CODEC(ZSTD(1)) AFTER routed_src_as,
    ADD COLUMN IF NOT EXISTS next_hop IPv6 COMMENT 'Next router towards the destination, as the exporter has it; :: unknown' CODEC(ZSTD(1)) AFTER routed_dst_as,
    ADD COLUMN IF NOT EXISTS bgp_next_hop IPv6 COMMENT 'BGP next hop towards the destination, as the exporter has it; :: unknown' CODEC(ZSTD(1)) AFTER next_hop,
    ADD COLUMN IF NOT EXISTS src_prefix_length UInt8 COMMENT 'Length of the prefix in the exporter''s routing table that the source is in; 0 unknown' CODEC(ZSTD(1)) AFTER bgp_next_hop,
    ADD COLUMN IF NOT EXISTS dst_prefix_length UInt8 COMMENT 'Length of the prefix that the destination is in, likewise' CODEC(ZSTD(1)) AFTER src_prefix_length,
    ADD COLUMN IF NOT EXISTS ingress_vrf UInt32 COMMENT 'VRF that the packets came in by, by its number on the exporter (exporter_names has its name); 0 the global one, or unknown' CODEC(ZSTD(1)) AFTER dst_prefix_length,
    ADD COLUMN IF NOT EXISTS egress_vrf UInt32 COMMENT 'VRF that the packets left by, likewise' CODEC(ZSTD(1)) AFTER ingress_vrf,
    ADD COLUMN IF NOT EXISTS flow_direction Enum8('unknown' = 0, 'ingress' = 1, 'egress' = 2) COMMENT 'Where the exporter observed the packets: as they came in or as they left' CODEC(ZSTD(1)) AFTER egress_vrf,
    ADD COLUMN IF NOT EXISTS flow_end_reason UInt8 COMMENT 'Why the exporter ended its record: 1 idle, 2 active timeout, 3 end of the flow seen, 4 forced, 5 lack of resources; 0 unknown' CODEC(ZSTD(1)) AFTER flow_direction,
    ADD COLUMN IF NOT EXISTS forwarding_status UInt8 COMMENT 'What the exporter did with the packets: 64 to 127 forwarded, 128 to 191 dropped, 192 to 255 consumed (RFC 7270); 0 unknown' CODEC(ZSTD(1)) AFTER flow_end_reason,
    ADD COLUMN IF NOT EXISTS mpls_top_label UInt32 COMMENT 'Top MPLS label, 0 for none' CODEC(ZSTD(1)) AFTER forwarding_status,
    ADD COLUMN IF NOT EXISTS min_ttl UInt8 COMMENT 'Lowest TTL or hop limit of the packets, 0 unknown' CODEC(ZSTD(1)) AFTER mpls_top_label,
    ADD COLUMN IF NOT EXISTS max_ttl UInt8 COMMENT 'Highest TTL or hop limit of the packets, 0 unknown' CODEC(ZSTD(1)) AFTER min_ttl,
    ADD COLUMN IF NOT EXISTS src_mac UInt64 COMMENT 'Link-layer address (MAC) of the source''s frames as a number, 0 unknown; MACNumToString() writes it' CODEC(ZSTD(1)) AFTER max_ttl,
    ADD COLUMN IF NOT EXISTS dst_mac UInt64 COMMENT 'Link-layer address of the destination, likewise' CODEC(ZSTD(1)) AFTER src_mac,
    ADD COLUMN IF NOT EXISTS post_nat_src_addr IPv6 COMMENT 'Address of the source after translation (NAT), :: unknown' CODEC(ZSTD(1)) AFTER dst_mac,
    ADD COLUMN IF NOT EXISTS post_nat_dst_addr IPv6 COMMENT 'Address of the destination after translation, :: unknown' CODEC(ZSTD(1)) AFTER post_nat_src_addr,
    ADD COLUMN IF NOT EXISTS post_nat_src_port UInt16 COMMENT 'Port of the source after translation, 0 unknown' CODEC(ZSTD(1)) AFTER post_nat_dst_addr,
    ADD COLUMN IF NOT EXISTS post_nat_dst_port UInt16 COMMENT 'Port of the destination after translation, 0 unknown' CODEC(ZSTD(1)) AFTER post_nat_src_port,
    ADD COLUMN IF NOT EXISTS observation_point UInt32 COMMENT 'Place on the exporter where it observed the packets, by its number there; 0 unknown' CODEC(ZSTD(1)) AFTER post_nat_dst_port,
    ADD COLUMN IF NOT EXISTS src_adjacent_as UInt32 COMMENT 'Autonomous system of the neighbour that the packets came from, as the exporter has it; 0 unknown' CODEC(ZSTD(1)) AFTER observation_point,
    ADD COLUMN IF NOT EXISTS dst_adjacent_as UInt32 COMMENT 'Autonomous system of the neighbour that the packets go to, likewise' CODEC(ZSTD(1)) AFTER src_adjacent_as;

ALTER TABLE applications
    ADD COLUMN IF NOT EXISTS category_number UInt16 COMMENT 'Number of the category, as nDPI numbers them' AFTER category;

CREATE OR REPLACE DICTIONARY application_names
(
    number UInt64,
    name String,
    category String,
    category_number UInt16
)
PRIMARY KEY number
SOURCE(CLICKHOUSE(TABLE 'applications'))
LAYOUT(HASHED())
LIFETIME(MIN 30 MAX 60)
COMMENT 'Names of applications by number';

CREATE TABLE IF NOT EXISTS nat_events
(
    ts DateTime('UTC') COMMENT 'Start of the interval that it came in' CODEC(GCD, T64, ZSTD(1)),
    probe LowCardinality(String) COMMENT 'Name of the probe that reported it',
    worker UInt16 COMMENT 'Worker of the probe that reported it, from 0' CODEC(T64, ZSTD(1)),
    epoch UInt64 COMMENT 'Run of the agent: microseconds from 1970 to its start' CODEC(ZSTD(1)),
    sequence UInt64 COMMENT 'Batch that brought the record, numbered within probe, worker and epoch' CODEC(T64, ZSTD(1)),
    interval_ms UInt32 COMMENT 'Length of the interval in milliseconds' CODEC(ZSTD(1)),
    event_at DateTime64(3, 'UTC') COMMENT 'When it happened, by the exporter' CODEC(Delta, ZSTD(1)),
    event Enum8('unknown' = 0, 'create' = 1, 'delete' = 2, 'address_bind' = 3, 'address_unbind' = 4, 'port_block_allocate' = 5, 'port_block_free' = 6, 'deny' = 7, 'exhausted' = 8, 'other' = 9) COMMENT 'What happened: a translation or connection began or ended, an address or a block of ports was bound to a subscriber or freed, a firewall refused, no address, port or quota was left' CODEC(ZSTD(1)),
    nat_event UInt8 COMMENT 'IE 230 natEvent as it came (RFC 8158), 0 for none' CODEC(ZSTD(1)),
    firewall_event UInt8 COMMENT 'IE 233 firewallEvent as it came, 0 for none' CODEC(ZSTD(1)),
    exporter_addr IPv6 COMMENT 'Device that reported it' CODEC(ZSTD(1)),
    protocol UInt8 COMMENT 'IP protocol number, 0 where the event is of all' CODEC(ZSTD(1)),
    src_addr IPv6 COMMENT 'Source before translation: the subscriber' CODEC(ZSTD(1)),
    src_port UInt16 COMMENT 'Port of the source before translation' CODEC(ZSTD(1)),
    dst_addr IPv6 COMMENT 'Destination before translation, :: unknown' CODEC(ZSTD(1)),
    dst_port UInt16 COMMENT 'Port of the destination before translation' CODEC(ZSTD(1)),
    post_src_addr IPv6 COMMENT 'Source after translation: the address that others saw; the source itself where it was not translated' CODEC(ZSTD(1)),
    post_src_port UInt16 COMMENT 'Port of the source after translation; of a block of ports the first one' CODEC(T64, ZSTD(1)),
    post_dst_addr IPv6 COMMENT 'Destination after translation, :: unknown' CODEC(ZSTD(1)),
    post_dst_port UInt16 COMMENT 'Port of the destination after translation' CODEC(ZSTD(1)),
    port_block_end UInt16 COMMENT 'Last port of the block of ports, 0 where the event is of one port' CODEC(ZSTD(1)),
    port_block_step UInt16 COMMENT 'Every so many ports from the first to the last one is of the block; 0 and 1: all' CODEC(ZSTD(1)),
    ingress_vrf UInt32 COMMENT 'VRF of the source, by its number on the exporter; 0 the global one, or unknown' CODEC(ZSTD(1)),
    egress_vrf UInt32 COMMENT 'VRF after translation, likewise' CODEC(ZSTD(1)),
    connection UInt64 COMMENT 'Number of the connection on the exporter, 0 for none' CODEC(ZSTD(1)),
    user_name String COMMENT 'Subscriber as the device knows it; empty unknown' CODEC(ZSTD(3)),
    INDEX src_addr src_addr TYPE bloom_filter(0.01) GRANULARITY 4
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(ts)
ORDER BY (post_src_addr, port_block_end > 0, post_src_port, event_at)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Events of address translation and firewalls: who had an address and port at a moment. `weir nat` asks it';

CREATE TABLE IF NOT EXISTS interface_counters
(
    ts DateTime('UTC') COMMENT 'Start of the interval that it came in' CODEC(GCD, T64, ZSTD(1)),
    probe LowCardinality(String) COMMENT 'Name of the collector that read the counters',
    worker UInt16 COMMENT 'Worker of the collector that read the counters, from 0' CODEC(T64, ZSTD(1)),
    epoch UInt64 COMMENT 'Run of the agent: microseconds from 1970 to its start' CODEC(ZSTD(1)),
    sequence UInt64 COMMENT 'Batch that brought the record, numbered within probe, worker and epoch' CODEC(T64, ZSTD(1)),
    interval_ms UInt32 COMMENT 'Length of the interval in milliseconds' CODEC(ZSTD(1)),
    exporter_addr IPv6 COMMENT 'Device whose interface it is' CODEC(ZSTD(1)),
    interface UInt32 COMMENT 'Number of the interface on the device (ifIndex)' CODEC(ZSTD(1)),
    speed UInt64 COMMENT 'Speed of the interface in bits per second, 0 unknown' CODEC(ZSTD(1)),
    status UInt8 COMMENT '1: administratively up; 2: operationally up; 3: both' CODEC(ZSTD(1)),
    span_ms UInt32 COMMENT 'Milliseconds that the counts are of: since the sample before' CODEC(T64, ZSTD(1)),
    in_octets UInt64 COMMENT 'Octets received, with those of the link layer' CODEC(T64, ZSTD(1)),
    in_packets UInt64 COMMENT 'Packets received' CODEC(T64, ZSTD(1)),
    in_errors UInt64 COMMENT 'Packets with errors, received' CODEC(T64, ZSTD(1)),
    in_discards UInt64 COMMENT 'Packets received that were discarded without an error' CODEC(T64, ZSTD(1)),
    out_octets UInt64 COMMENT 'Octets sent, with those of the link layer' CODEC(T64, ZSTD(1)),
    out_packets UInt64 COMMENT 'Packets sent' CODEC(T64, ZSTD(1)),
    out_errors UInt64 COMMENT 'Packets with errors, sent' CODEC(T64, ZSTD(1)),
    out_discards UInt64 COMMENT 'Packets to be sent that were discarded without an error' CODEC(T64, ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(ts)
ORDER BY (exporter_addr, interface, ts)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'What counters of exporters'' interfaces went on by; v_interfaces shows them beside the sampled flows of the same interface';

CREATE TABLE IF NOT EXISTS exporter_names
(
    ts DateTime('UTC') COMMENT 'Start of the interval that it came in' CODEC(GCD, T64, ZSTD(1)),
    probe LowCardinality(String) COMMENT 'Name of the collector that heard the name',
    worker UInt16 COMMENT 'Worker of the collector that heard the name, from 0' CODEC(T64, ZSTD(1)),
    epoch UInt64 COMMENT 'Run of the agent: microseconds from 1970 to its start' CODEC(ZSTD(1)),
    sequence UInt64 COMMENT 'Batch that brought the record, numbered within probe, worker and epoch' CODEC(T64, ZSTD(1)),
    interval_ms UInt32 COMMENT 'Length of the interval in milliseconds' CODEC(ZSTD(1)),
    exporter_addr IPv6 COMMENT 'Device that gave the name' CODEC(ZSTD(1)),
    kind Enum8('unknown' = 0, 'interface' = 1, 'vrf' = 2) COMMENT 'What is named' CODEC(ZSTD(1)),
    number UInt32 COMMENT 'Its number on the device' CODEC(ZSTD(1)),
    name String COMMENT 'Its name' CODEC(ZSTD(1)),
    description String COMMENT 'What operators wrote about it' CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toYYYYMM(ts)
ORDER BY (exporter_addr, kind, number)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Names that exporters gave to their interfaces and VRFs; the newest holds';
