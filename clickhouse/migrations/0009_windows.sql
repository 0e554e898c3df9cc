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

CREATE OR REPLACE VIEW v_top_flows
(
    ts DateTime('UTC') COMMENT 'Start of the window',
    window_s UInt16 COMMENT 'Length of the window in seconds',
    scope Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: the list of one probe. all: the list over all probes, each flow once. customer: of these, the flows of one customer',
    probe LowCardinality(String) COMMENT 'Name of the probe, empty for all',
    customer UInt32 COMMENT 'Customer of a customer''s list, else 0',
    customer_name String COMMENT 'Name of the customer',
    list Enum8('ip_octets' = 1, 'ip_packets' = 2, 'tcp_octets' = 3, 'tcp_packets' = 4, 'udp_octets' = 5, 'udp_packets' = 6, 'icmp_octets' = 7, 'icmp_packets' = 8) COMMENT 'Which flows (ip: all), and what puts them in order',
    rank UInt16 COMMENT 'Place in the list, from 1',
    version UInt32 COMMENT 'How often the window was computed; the newest is shown',
    protocol_name String COMMENT 'Name of the protocol, its number where it has none here',
    src String COMMENT 'Address of the source, IPv4 as IPv4',
    src_port UInt16 COMMENT 'Port of the source',
    dst String COMMENT 'Address of the destination, IPv4 as IPv4',
    dst_port UInt16 COMMENT 'Port of the destination; for ICMP its type * 256 + code',
    octets UInt64 COMMENT 'Layer-3 octets of the flow in the window, both directions',
    packets UInt64 COMMENT 'Packets of the flow in the window, both directions',
    fwd_octets UInt64 COMMENT 'Layer-3 octets from source to destination',
    fwd_packets UInt64 COMMENT 'Packets from source to destination',
    rev_octets UInt64 COMMENT 'Layer-3 octets from destination to source',
    rev_packets UInt64 COMMENT 'Packets from destination to source',
    window_octets UInt64 COMMENT 'Layer-3 octets of all flows in the window',
    window_packets UInt64 COMMENT 'Packets of all flows in the window',
    window_flows UInt64 COMMENT 'Distinct flows in the window',
    overflow_octets UInt64 COMMENT 'Of window_octets, what came in overflow records and so could be in no list',
    duplicate_octets UInt64 COMMENT 'Lists over all probes: octets left out because another probe had seen the same flow',
    error_octets UInt64 COMMENT 'A flow may have this many octets more, and one that is not in the list no more than this: windows had more flows than they keep (--window-flows). 0: exact',
    share Float64 COMMENT 'Part of window_octets that the flow has, 0 to 1',
    probes_reported UInt32 COMMENT 'Probes whose window was complete when the row was computed',
    probes_expected UInt32 COMMENT 'Probes that were enrolled'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    ts, window_s, scope, probe, customer, dictGet('customer_names', 'customer', customer) AS customer_name, list, rank, version,
    weir_protocol_name(protocol) AS protocol_name,
    weir_addr(src_addr) AS src, src_port, weir_addr(dst_addr) AS dst, dst_port,
    octets, packets, fwd_octets, fwd_packets, rev_octets, rev_packets,
    window_octets, window_packets, window_flows, overflow_octets, duplicate_octets, error_octets,
    octets / greatest(window_octets, 1) AS share,
    probes_reported, probes_expected
FROM top_flows FINAL
WHERE packets > 0
COMMENT 'Top flows of each window, per probe, per customer and over all: the newest version of each list';

CREATE OR REPLACE VIEW v_top_talkers
(
    ts DateTime('UTC') COMMENT 'Start of the window',
    window_s UInt16 COMMENT 'Length of the window in seconds',
    scope Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: what one probe saw. all: all probes, each flow once. customer: of these, what one customer had',
    probe LowCardinality(String) COMMENT 'Name of the probe, empty for all and for customers',
    customer UInt32 COMMENT 'Customer of a customer''s list, else 0; names in prefixes',
    customer_name String COMMENT 'Name of the customer',
    list Enum8('host_in' = 1, 'host_out' = 2, 'port_tcp' = 3, 'port_udp' = 4, 'as' = 5, 'customer' = 6) COMMENT 'host_in, host_out: hosts by octets received, sent; in a customer''s list its own hosts. port_tcp, port_udp: destination ports by octets both ways. as, customer: by octets in and out',
    rank UInt16 COMMENT 'Place in the list, from 1',
    version UInt32 COMMENT 'How often the window was computed; the newest is shown',
    host String COMMENT 'Address of the host, IPv4 as IPv4; empty for other lists',
    number UInt32 COMMENT 'Port, AS number or customer',
    name String COMMENT 'Name of the port''s service, of the AS or of the customer',
    octets UInt64 COMMENT 'Layer-3 octets in and out',
    packets UInt64 COMMENT 'Packets in and out',
    in_octets UInt64 COMMENT 'Layer-3 octets received; for a port, sent to it',
    in_packets UInt64 COMMENT 'Packets received',
    out_octets UInt64 COMMENT 'Layer-3 octets sent; for a port, sent from it',
    out_packets UInt64 COMMENT 'Packets sent',
    flows UInt64 COMMENT 'Distinct flows',
    overflow_octets UInt64 COMMENT 'Of octets, what came in overflow records',
    window_octets UInt64 COMMENT 'Layer-3 octets of the whole window and scope',
    window_packets UInt64 COMMENT 'Packets of the whole window and scope',
    window_keys UInt64 COMMENT 'How many hosts, ports, AS or customers there were',
    window_overflow_octets UInt64 COMMENT 'Of window_octets, what came in overflow records: some of it names no host, port or AS',
    error_octets UInt64 COMMENT 'Above 0 where windows had more flows than they keep (--window-flows): then overflow_octets says how much was added up, and a host or port that is missing had no flow above this',
    probes_reported UInt32 COMMENT 'Probes whose window was complete when the row was computed',
    probes_expected UInt32 COMMENT 'Probes that were enrolled'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    t.ts AS ts,
    t.window_s AS window_s,
    t.scope AS scope,
    t.probe AS probe,
    t.customer AS customer,
    dictGet('customer_names', 'customer', t.customer) AS customer_name,
    t.list AS list,
    t.rank AS rank,
    t.version AS version,
    if(t.list IN ('host_in', 'host_out'), weir_addr(t.addr), '') AS host,
    t.number AS number,
    multiIf(t.list = 'port_tcp', dictGet('service_names', 'name', (toUInt16(t.number), toUInt8(6))), t.list = 'port_udp', dictGet('service_names', 'name', (toUInt16(t.number), toUInt8(17))), t.list = 'as', dictGet('autonomous_system_names', 'name', t.number), t.list = 'customer', dictGet('customer_names', 'customer', t.number), '') AS name,
    t.octets AS octets,
    t.packets AS packets,
    t.in_octets AS in_octets,
    t.in_packets AS in_packets,
    t.out_octets AS out_octets,
    t.out_packets AS out_packets,
    t.flows AS flows,
    t.overflow_octets AS overflow_octets,
    t.window_octets AS window_octets,
    t.window_packets AS window_packets,
    t.window_keys AS window_keys,
    t.window_overflow_octets AS window_overflow_octets,
    t.error_octets AS error_octets,
    t.probes_reported AS probes_reported,
    t.probes_expected AS probes_expected
FROM top_talkers AS t FINAL
WHERE t.packets > 0
COMMENT 'Top hosts, ports, AS and customers of each window, per probe, per customer and over all: the newest version of each list';

CREATE OR REPLACE VIEW v_mixes
(
    ts DateTime('UTC') COMMENT 'Start of the window',
    window_s UInt32 COMMENT 'Length of the window in seconds',
    scope Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: what one probe saw, inside is its site. all: all probes, each flow once, inside is the nation. customer: of these, what one customer had; inside is the customer',
    probe LowCardinality(String) COMMENT 'Name of the probe, empty for all and for customers',
    customer UInt32 COMMENT 'Customer of scope customer, else 0; names in prefixes',
    customer_name String COMMENT 'Name of the customer',
    dimension Enum8('total' = 1, 'application' = 2, 'as' = 3, 'country' = 4, 'customer' = 5) COMMENT 'What the rows are by. as, country: of the end outside, else of the sender. customer: of the end inside, else of the sender',
    direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Which way the packets went: in is from outside to inside. unknown: nobody has declared what is inside',
    rank UInt16 COMMENT 'Place by octets, from 1; the remainder comes last',
    version UInt32 COMMENT 'How often the window was computed; the newest is shown',
    number UInt32 COMMENT 'Application, AS, country (first letter * 256 + second) or customer; 0 unknown or none',
    name String COMMENT 'Name of the application, AS, country or customer; of the last two rows of a mix, what they stand for',
    remainder Bool COMMENT 'All that is not in the rows before',
    octets UInt64 COMMENT 'Layer-3 octets',
    packets UInt64 COMMENT 'Packets',
    flows UInt64 COMMENT 'Flows that began in the window, by the direction of their first packet; over windows they add up to all flows',
    ipv4_octets UInt64 COMMENT 'Of octets, IPv4',
    ipv4_packets UInt64 COMMENT 'Of packets, IPv4',
    ipv4_flows UInt64 COMMENT 'Of flows, IPv4',
    ipv6_octets UInt64 COMMENT 'Of octets, IPv6',
    ipv6_packets UInt64 COMMENT 'Of packets, IPv6',
    ipv6_flows UInt64 COMMENT 'Of flows, IPv6',
    overflow_octets UInt64 COMMENT 'Of octets, what came in overflow records',
    direction_octets UInt64 COMMENT 'Layer-3 octets of the window, scope and direction: the whole of which octets is a share',
    direction_packets UInt64 COMMENT 'Packets of the window, scope and direction',
    direction_flows UInt64 COMMENT 'Flows of the window, scope and direction',
    probes_reported UInt32 COMMENT 'Probes whose window was complete when the row was computed',
    probes_expected UInt32 COMMENT 'Probes that were enrolled',
    share Float64 COMMENT 'Part of direction_octets, 0 to 1'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    t.ts AS ts,
    t.window_s AS window_s,
    t.scope AS scope,
    t.probe AS probe,
    t.customer AS customer,
    dictGet('customer_names', 'customer', t.customer) AS customer_name,
    t.dimension AS dimension,
    t.direction AS direction,
    t.rank AS rank,
    t.version AS version,
    t.number AS number,
    multiIf(t.remainder, 'the rest', t.dimension = 'total', 'all', t.number = 0, 'unknown', t.dimension = 'application', dictGet('application_names', 'name', t.number), t.dimension = 'as', dictGet('autonomous_system_names', 'name', t.number), t.dimension = 'country', weir_country(t.number), t.dimension = 'customer', dictGet('customer_names', 'customer', t.number), '') AS name,
    t.remainder AS remainder,
    t.octets AS octets,
    t.packets AS packets,
    t.flows AS flows,
    t.ipv4_octets AS ipv4_octets,
    t.ipv4_packets AS ipv4_packets,
    t.ipv4_flows AS ipv4_flows,
    t.ipv6_octets AS ipv6_octets,
    t.ipv6_packets AS ipv6_packets,
    t.ipv6_flows AS ipv6_flows,
    t.overflow_octets AS overflow_octets,
    t.direction_octets AS direction_octets,
    t.direction_packets AS direction_packets,
    t.direction_flows AS direction_flows,
    t.probes_reported AS probes_reported,
    t.probes_expected AS probes_expected,
    t.octets / greatest(t.direction_octets, 1) AS share
FROM mixes AS t FINAL
WHERE t.packets > 0
COMMENT 'Totals, and shares of applications, AS, countries and customers, of each window: the newest version';
