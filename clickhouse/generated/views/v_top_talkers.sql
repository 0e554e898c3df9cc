-- Written by flink-jobs (io.weir.jobs.Definitions) from the declaration of the table; do not edit.

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
