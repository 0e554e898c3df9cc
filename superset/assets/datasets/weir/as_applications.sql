-- Applications of each autonomous system. Reads at most the last ten minutes of the range, because there are very many records. A flow that
-- several probes saw counts once, or, where probes are chosen, for each of them.
SELECT
    max(a.ts) AS ts,
    a.probe AS probe,
    a.direction AS direction,
    if(a.as_number = 0, 'unknown AS', if(a.as_name = '', concat('AS', toString(a.as_number)), a.as_name)) AS as_label,
    a.application AS application_label,
    sum(a.octets) AS octets
FROM
(
    SELECT *, o.record_kind = 'overflow' OR o.probe = argMin(o.probe, o.place) OVER (PARTITION BY o.flow) AS canonical
    FROM v_as_applications AS o
    WHERE o.ts >= toDateTime(greatest({{ since(from_dttm) }}, {{ until(to_dttm) }} - 600), 'UTC')
      AND o.ts < toDateTime({{ until(to_dttm) }}, 'UTC')
) AS a
WHERE {{ counting(filter_values, 'a') }}
GROUP BY probe, direction, as_label, application_label
ORDER BY octets DESC
LIMIT 1000
