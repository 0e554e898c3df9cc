-- The days of each period and of the one before it; `m` has the days.
    CROSS JOIN (SELECT arrayJoin([1, 7, 28])::UInt8 AS days) AS p
    WHERE m.day > newest - 56 AND m.day <= newest AND if(p.days = 1, m.day IN (newest, newest - 7), m.day > newest - 2 * p.days)
