-- A window counts if the probe reported it (for customers and the whole, if any probe did): without traffic its rate is 0, as billing requires. A
-- window that no probe reported is not here, because nobody knows its rate; nor is one that ended less than two minutes ago, whose mix may not have
-- been written yet. Windows are as long as the newest of mixes.
CREATE OR REPLACE VIEW v_rates
(
    ts DateTime('UTC') COMMENT 'Start of the window',
    window_s UInt32 COMMENT 'Length of the window in seconds',
    LIKE v_mixes (scope, probe, customer_id, customer),
    in_octets UInt64 COMMENT 'Layer-3 octets that came in, 0 in a window without traffic',
    out_octets UInt64 COMMENT 'Layer-3 octets that went out',
    octets UInt64 COMMENT 'Layer-3 octets of all directions, also those that stayed inside, passed through, or have no known direction',
    in_bits_per_second Float64 COMMENT 'Mean rate of what came in',
    out_bits_per_second Float64 COMMENT 'Mean rate of what went out',
    bits_per_second Float64 COMMENT 'Mean rate of all directions'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS
WITH ifNull((SELECT n.window_s FROM mixes AS n WHERE n.window_s > 0 ORDER BY n.ts DESC LIMIT 1), 300) AS span
SELECT
    k.ts AS ts, toUInt32(span) AS window_s, k.scope AS scope, k.probe AS probe, k.customer AS customer_id,
    dictGet('customer_names', 'customer', k.customer) AS customer,
    m.in_octets AS in_octets, m.out_octets AS out_octets, m.octets AS octets,
    8 * m.in_octets / span AS in_bits_per_second, 8 * m.out_octets / span AS out_bits_per_second, 8 * m.octets / span AS bits_per_second
FROM
(
    SELECT toStartOfInterval(l.ts, toIntervalSecond(span)) AS ts, 'probe' AS scope, toString(l.probe) AS probe, toUInt32(0) AS customer
    FROM ledger AS l
    WHERE l.state NOT IN ('missing', 'stopped') AND l.ts < toStartOfInterval(now('UTC') - 120, toIntervalSecond(span))
    GROUP BY ts, probe
    UNION ALL
    SELECT r.ts, c.scope, '', c.customer
    FROM
    (
        SELECT toStartOfInterval(l.ts, toIntervalSecond(span)) AS ts
        FROM ledger AS l
        WHERE l.state NOT IN ('missing', 'stopped') AND l.ts < toStartOfInterval(now('UTC') - 120, toIntervalSecond(span))
        GROUP BY ts
    ) AS r
    CROSS JOIN
    (
        SELECT 'all' AS scope, toUInt32(0) AS customer
        UNION ALL
        SELECT DISTINCT 'customer', p.customer_id FROM prefixes AS p WHERE p.customer_id != 0
    ) AS c
) AS k
LEFT JOIN
(
    SELECT
        toStartOfInterval(x.ts, toIntervalSecond(span)) AS ts, toString(x.scope) AS scope, toString(x.probe) AS probe, x.customer AS customer,
        sumIf(x.octets, x.direction = 'in') AS in_octets, sumIf(x.octets, x.direction = 'out') AS out_octets, sum(x.octets) AS octets
    FROM (SELECT * FROM mixes FINAL WHERE dimension = 'total') AS x
    GROUP BY ts, scope, probe, customer
) AS m ON m.ts = k.ts AND m.scope = k.scope AND m.probe = k.probe AND m.customer = k.customer
SETTINGS join_use_nulls = 0
COMMENT 'Rate of each window, of each probe and customer and over all, including windows without traffic: for 95th percentiles. The last two minutes are missing. Restrict ts to a range';
