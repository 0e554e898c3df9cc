-- Each kind has a branch, so that a condition on `kind` reads the tables of that kind only.
CREATE OR REPLACE VIEW v_first_seen
(
    kind Enum8('address' = 1, 'port' = 2, 'as' = 3, 'application' = 4) COMMENT 'What was seen. address: a host. port: a TCP or UDP port to which traffic went, as in v_ports_daily. as: the autonomous system of a host. application: as in v_mixes; only the largest of each window have a row there',
    scope Enum8('all' = 2, 'customer' = 3) COMMENT 'all: by any probe. customer: in the traffic of one customer; of addresses and ports there are no such rows',
    customer_id UInt32 COMMENT 'Kind address: customer of the host; scope customer: that customer; by number, 0 none',
    customer String COMMENT 'Name of the customer, empty for none',
    addr IPv6 COMMENT 'Kind address: the address as it is stored, IPv4 mapped; else ::',
    host String COMMENT 'Kind address: the address, IPv4 as IPv4; else empty',
    protocol_name String COMMENT 'Kind port: TCP or UDP; else empty',
    number UInt32 COMMENT 'Port, AS number or number of the application; 0 for addresses',
    name String COMMENT 'Service of the port, organisation of the AS, or application; empty for addresses',
    first_day Date COMMENT 'First day, UTC, in what the store keeps',
    last_day Date COMMENT 'Newest day',
    days UInt64 COMMENT 'Days on which it was seen'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    s.kind AS kind, s.scope AS scope, s.customer AS customer_id, dictGet('customer_names', 'customer', s.customer) AS customer,
    s.addr AS addr, if(s.kind = 'address', weir_addr(s.addr), '') AS host, if(s.kind = 'port', weir_protocol_name(s.protocol), '') AS protocol_name,
    s.number AS number,
    multiIf(
        s.kind = 'port', dictGet('service_names', 'name', (toUInt16(s.number), s.protocol)),
        s.kind = 'as', dictGet('autonomous_system_names', 'name', s.number),
        s.kind = 'application', dictGet('application_names', 'name', s.number), '') AS name,
    s.first_day AS first_day, s.last_day AS last_day, s.days AS days
FROM
(
    SELECT
        'address' AS kind, 'all' AS scope, max(customer) AS customer, addr, toUInt8(0) AS protocol, toUInt32(0) AS number,
        min(day) AS first_day, max(day) AS last_day, uniqExact(day) AS days
    FROM hosts_daily
    WHERE NOT network AND addr != toIPv6('::')
    GROUP BY addr
    UNION ALL
    SELECT 'port', 'all', 0, toIPv6('::'), protocol, toUInt32(port) AS number, min(day), max(day), uniqExact(day)
    FROM ports_daily
    WHERE port != 0
    GROUP BY protocol, port
    UNION ALL
    SELECT 'as', 'all', 0, toIPv6('::'), 0, as_number, min(day), max(day), uniqExact(day)
    FROM hosts_daily
    WHERE as_number != 0
    GROUP BY as_number
    UNION ALL
    SELECT
        m.dimension, m.scope, m.customer, toIPv6('::'), 0, m.number, min(m.day), max(m.day), uniqExact(m.day)
    FROM
    (
        SELECT toString(dimension) AS dimension, toString(scope) AS scope, customer, number, day FROM mixes_daily
        WHERE NOT remainder AND number != 0 AND (scope, dimension) IN (('all', 'application'), ('customer', 'application'), ('customer', 'as'))
        UNION ALL
        -- Those days of which no roll-up is there yet.
        SELECT toString(dimension), toString(scope), customer, number, toDate(ts) FROM mixes
        WHERE ts >= today() - 1 AND NOT remainder AND number != 0 AND packets > 0
            AND (scope, dimension) IN (('all', 'application'), ('customer', 'application'), ('customer', 'as'))
    ) AS m
    GROUP BY m.dimension, m.scope, m.customer, m.number
) AS s
COMMENT 'When each address, port, AS and application was first seen, by days: WHERE kind = ''port'' AND first_day >= today() - 7. For one address WHERE kind = ''address'' AND addr = ''192.0.2.1''';
