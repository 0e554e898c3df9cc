-- Whole days only: a day that is not over, compared with whole ones, would look quiet. A value that was not among the largest of a window is in the
-- rest there, so an octet count of 0 means "not among the largest", as in v_mixes_daily.
CREATE OR REPLACE VIEW v_compared
(
    days UInt8 COMMENT 'Length of both periods in days: 1, 7 or 28. For a day, the period before it is the same weekday a week earlier',
    last_day Date COMMENT 'Last day of the period: the newest whole day of the store',
    LIKE v_mixes_daily (scope, probe, customer_id, customer, dimension, direction, number, name, application_id, application, remainder),
    days_known UInt64 COMMENT 'Days of the period for which this probe, customer or the whole has any traffic',
    previous_days_known UInt64 COMMENT 'The same of the period before; 0: nothing is known of it',
    octets UInt64 COMMENT 'Layer-3 octets in the period',
    previous_octets UInt64 COMMENT 'Layer-3 octets in the period before',
    packets UInt64 COMMENT 'Packets in the period',
    previous_packets UInt64 COMMENT 'Packets in the period before',
    flows UInt64 COMMENT 'Flows that began in the period',
    previous_flows UInt64 COMMENT 'Flows that began in the period before',
    octets_ratio Nullable(Float64) COMMENT 'octets / previous_octets: 2 means twice as many; NULL if there were none before, or if the periods have not the same number of known days'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS
WITH ifNull((SELECT max(n.day) FROM mixes_daily AS n WHERE n.day < today()), toDate('1970-01-01')) AS newest
SELECT
    c.days AS days, newest AS last_day, c.scope AS scope, c.probe AS probe, c.customer_id AS customer_id, c.customer AS customer,
    c.dimension AS dimension, c.direction AS direction, c.number AS number, c.name AS name,
    c.application_id AS application_id, c.application AS application, c.remainder AS remainder,
    c.known AS days_known, c.known_before AS previous_days_known,
    c.octets AS octets, c.octets_before AS previous_octets, c.packets AS packets, c.packets_before AS previous_packets,
    c.flows AS flows, c.flows_before AS previous_flows,
    if(c.octets_before = 0 OR c.known != c.known_before, NULL, c.octets / c.octets_before) AS octets_ratio
FROM
(
    SELECT *, max(own_known) OVER whole AS known, max(own_known_before) OVER whole AS known_before
    FROM
    (
        SELECT
            period AS days, toString(m.scope) AS scope, toString(m.probe) AS probe, m.customer_id AS customer_id, m.customer AS customer,
            m.dimension AS dimension, m.direction AS direction, m.number AS number, m.name AS name,
            m.application_id AS application_id, m.application AS application, m.remainder AS remainder,
            sumIf(m.octets, m.day > newest - period) AS octets, sumIf(m.octets, m.day <= newest - period) AS octets_before,
            sumIf(m.packets, m.day > newest - period) AS packets, sumIf(m.packets, m.day <= newest - period) AS packets_before,
            sumIf(m.flows, m.day > newest - period) AS flows, sumIf(m.flows, m.day <= newest - period) AS flows_before,
            uniqExactIf(m.day, m.dimension = 'total' AND m.day > newest - period) AS own_known,
            uniqExactIf(m.day, m.dimension = 'total' AND m.day <= newest - period) AS own_known_before
        FROM v_mixes_daily AS m
        ARRAY JOIN [1, 7, 28]::Array(UInt8) AS period
        WHERE m.day > newest - 56 AND m.day <= newest
          AND if(period = 1, m.day IN (newest, newest - 7), m.day > newest - 2 * period)
        GROUP BY days, scope, probe, customer_id, customer, dimension, direction, number, name, application_id, application, remainder
    )
    WINDOW whole AS (PARTITION BY days, scope, probe, customer_id)
) AS c
COMMENT 'The newest day, week and four weeks beside those before: WHERE days = 7 AND scope = ''all'' AND dimension = ''application''. Whole days only';
