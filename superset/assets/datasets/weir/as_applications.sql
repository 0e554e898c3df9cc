-- Applications of each autonomous system. It reads at most the last hour of the range: records are many.
SELECT
    max(a.ts) AS ts,
    a.probe AS probe,
    a.direction AS direction,
    if(a.as_number = 0, 'unknown AS', if(a.as_name = '', concat('AS', toString(a.as_number)), a.as_name)) AS as_label,
    a.application AS application_label,
    sum(a.octets) AS octets
FROM v_as_applications AS a
WHERE a.ts >= toDateTime(greatest({{ since(from_dttm) }}, {{ until(to_dttm) }} - 3600), 'UTC')
  AND a.ts < toDateTime({{ until(to_dttm) }}, 'UTC')
GROUP BY probe, direction, as_label, application_label
ORDER BY octets DESC
LIMIT 1000
