-- What happened in each window: lists of flows, hosts, ports, AS and customers, and mixes. A window is written again,
-- with a higher version, when later data changes it; where a list becomes shorter, rows of zeros stand at its end.

ALTER TABLE top_flows
    MODIFY COLUMN scope Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: the list of one probe. all: the list over all probes, each flow once. customer: of these, the flows of one customer';
ALTER TABLE top_flows
    ADD COLUMN IF NOT EXISTS customer UInt32 COMMENT 'Customer of a customer''s list, else 0; names in prefixes' AFTER probe,
    ADD COLUMN IF NOT EXISTS list Enum8('ip_octets' = 1, 'ip_packets' = 2, 'tcp_octets' = 3, 'tcp_packets' = 4, 'udp_octets' = 5, 'udp_packets' = 6, 'icmp_octets' = 7, 'icmp_packets' = 8) COMMENT 'Which flows (ip: all), and what puts them in order' AFTER customer,
    ADD COLUMN IF NOT EXISTS duplicate_octets UInt64 COMMENT 'Lists over all probes: octets left out because another probe had seen the same flow' AFTER overflow_octets,
    ADD COLUMN IF NOT EXISTS error_octets UInt64 COMMENT 'A flow may have this many octets more, and one that is not in the list no more than this: windows had more flows than they keep (--window-flows). 0: exact' AFTER duplicate_octets,
    MODIFY ORDER BY (ts, window_s, scope, probe, rank, customer, list);

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

-- Names of applications, as the agent's nDPI numbers them.
CREATE TABLE IF NOT EXISTS applications
(
    number   UInt16 COMMENT 'Number of the application, as in flows',
    name     LowCardinality(String) COMMENT 'Name of the application',
    category LowCardinality(String) COMMENT 'What kind of application it is',
    loaded   DateTime('UTC') DEFAULT now() COMMENT 'When the name was loaded; the newest holds'
)
ENGINE = ReplacingMergeTree(loaded)
ORDER BY number
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Applications that flows may name, from the agent (weir-probe applications)';

CREATE DICTIONARY IF NOT EXISTS application_names
(
    number UInt64,
    name String,
    category String
)
PRIMARY KEY number
SOURCE(CLICKHOUSE(TABLE 'applications'))
LAYOUT(HASHED())
LIFETIME(MIN 30 MAX 60)
COMMENT 'Names of applications by number';
