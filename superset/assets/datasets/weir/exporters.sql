-- Routers and agents with collected records in the time range, one row each: a day's intervals would be many.
SELECT
    {{ last_second(to_dttm) }} AS ts,
    e.probe AS probe,
    if(e.exporter = '', 'of nobody known', e.exporter) AS exporter,
    e.domain AS domain,
    e.protocol AS protocol,
    if(sum(e.records) = 0, '', formatDateTime(maxIf(e.ts, e.records > 0), '%Y-%m-%d %H:%i:%S', 'UTC')) AS last_records,
    sum(e.records) AS records,
    sum(e.lost) AS lost,
    anyIf(e.lost_unit, e.lost > 0) AS lost_unit,
    sum(e.without_sampling_rate) AS without_rate,
    sum(e.refused) AS refused,
    arrayStringConcat(arrayMap(cause -> replaceAll(cause, '_', ' '), mapKeys(sumMap(e.refused_causes))), ', ') AS causes
FROM v_exporters AS e
WHERE {{ within('e.ts', from_dttm, to_dttm) }}
GROUP BY probe, exporter, domain, protocol
