-- Written by flink-jobs (io.weir.jobs.Definitions) from the declaration of the table; do not edit.

CREATE TABLE IF NOT EXISTS mixes
(
    ts                DateTime('UTC') COMMENT 'Start of the window' CODEC(Delta, ZSTD(1)),
    window_s          UInt32 COMMENT 'Length of the window in seconds',
    scope             Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: what one probe saw, inside is its site. all: all probes, each flow once, inside is the nation. customer: of these, what one customer had; inside is the customer',
    probe             LowCardinality(String) COMMENT 'Name of the probe, empty for all and for customers',
    customer          UInt32 COMMENT 'Customer of scope customer, else 0; names in prefixes',
    dimension         Enum8('total' = 1, 'application' = 2, 'as' = 3, 'country' = 4, 'customer' = 5) COMMENT 'What the rows are by. as, country: of the end outside, else of the sender. customer: of the end inside, else of the sender',
    direction         Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Which way the packets went: in is from outside to inside. unknown: nobody has declared what is inside',
    rank              UInt16 COMMENT 'Place by octets, from 1; the remainder comes last',
    version           UInt32 COMMENT 'How often the window was computed; the highest holds',
    number            UInt32 COMMENT 'Application, AS, country (first letter * 256 + second) or customer; 0 unknown or none',
    remainder         Bool COMMENT 'All that is not in the rows before',
    octets            UInt64 COMMENT 'Layer-3 octets',
    packets           UInt64 COMMENT 'Packets',
    flows             UInt64 COMMENT 'Flows that began in the window, by the direction of their first packet; over windows they add up to all flows',
    ipv4_octets       UInt64 COMMENT 'Of octets, IPv4',
    ipv4_packets      UInt64 COMMENT 'Of packets, IPv4',
    ipv4_flows        UInt64 COMMENT 'Of flows, IPv4',
    ipv6_octets       UInt64 COMMENT 'Of octets, IPv6',
    ipv6_packets      UInt64 COMMENT 'Of packets, IPv6',
    ipv6_flows        UInt64 COMMENT 'Of flows, IPv6',
    overflow_octets   UInt64 COMMENT 'Of octets, what came in overflow records',
    direction_octets  UInt64 COMMENT 'Layer-3 octets of the window, scope and direction: the whole of which octets is a share',
    direction_packets UInt64 COMMENT 'Packets of the window, scope and direction',
    direction_flows   UInt64 COMMENT 'Flows of the window, scope and direction',
    probes_reported   UInt32 COMMENT 'Probes whose window was complete when the row was computed',
    probes_expected   UInt32 COMMENT 'Probes that were enrolled'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(ts)
ORDER BY (ts, window_s, scope, probe, customer, dimension, direction, rank)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Totals, and shares of applications, AS, countries and customers, of each window, per probe, per customer and over all; read v_mixes, which shows the newest version';
