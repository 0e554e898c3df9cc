CREATE OR REPLACE VIEW v_mixes_daily
(
    day Date COMMENT 'Day, UTC',
    scope Enum8('probe' = 1, 'all' = 2, 'customer' = 3) COMMENT 'probe: the flows that one probe saw. all: all probes, each flow once. customer: the flows of one customer, each once',
    LIKE mixes_daily (probe),
    customer_id UInt32 COMMENT 'Customer for scope customer, by number, else 0',
    customer String COMMENT 'Name of the customer, empty for none',
    dimension Enum8('total' = 1, 'application' = 2, 'as' = 3, 'country' = 4, 'customer' = 5, 'as_application' = 6) COMMENT 'Dimension of the rows: total, application, as, country, customer, or as_application, pairs of AS and application',
    direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Direction of the packets: in is from outside to inside',
    number UInt32 COMMENT 'Application, AS, country or customer',
    name String COMMENT 'Name of the application, AS, country or customer',
    LIKE v_mixes (application_id, application),
    LIKE mixes_daily (remainder, windows, octets, packets, flows),
    ipv4_octets UInt64 COMMENT 'IPv4 part of octets',
    LIKE mixes_daily (ipv6_octets),
    ipv4_packets UInt64 COMMENT 'IPv4 part of packets',
    LIKE mixes_daily (ipv6_packets),
    ipv4_flows UInt64 COMMENT 'IPv4 part of flows',
    LIKE mixes_daily (ipv6_flows)
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    day, scope, probe, t.customer AS customer_id, dictGet('customer_names', 'customer', t.customer) AS customer, dimension, direction, number,
    multiIf(t.remainder, 'the rest', t.dimension = 'total', 'all', t.number = 0, 'unknown', t.dimension = 'application', dictGet('application_names', 'name', t.number), t.dimension IN ('as', 'as_application'), dictGet('autonomous_system_names', 'name', t.number), t.dimension = 'country', weir_country(t.number), t.dimension = 'customer', dictGet('customer_names', 'customer', t.number), '') AS name,
    if(t.dimension = 'application', toUInt16(t.number), t.application) AS application_id,
    multiIf(t.dimension NOT IN ('application', 'as_application') OR t.remainder, '', application_id = 0, 'unknown', dictGet('application_names', 'name', application_id)) AS application,
    remainder, windows, octets, packets, flows, octets - ipv6_octets AS ipv4_octets, ipv6_octets,
    packets - ipv6_packets AS ipv4_packets, ipv6_packets, flows - ipv6_flows AS ipv4_flows, ipv6_flows
FROM mixes_daily AS t
COMMENT 'Totals, and applications, AS, countries, customers, and AS with application of each day, for ever; the present day is in v_mixes';
