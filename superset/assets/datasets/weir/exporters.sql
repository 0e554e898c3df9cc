-- Routers and agents with collected records in the time range, one row each, because a row per interval would be too many in a day.
SELECT
    {{ last_second(to_dttm) }} AS ts,
    e.probe AS probe,
    if(e.exporter = '', 'unknown exporter', e.exporter) AS exporter,
    e.domain AS domain,
    e.protocol AS protocol,
    if(sum(e.records + e.nat_events + e.interface_counters) = 0, '', formatDateTime(maxIf(e.ts, e.records + e.nat_events + e.interface_counters > 0), '%Y-%m-%d %H:%i:%S', 'UTC')) AS last_records,
    sum(e.records) AS records,
    sum(e.nat_events + e.interface_counters) AS reports,
    sum(e.lost) AS lost,
    anyIf(e.lost_unit, e.lost > 0) AS lost_unit,
    sum(e.without_sampling_rate) AS without_rate,
    multiIf(
        argMax(e.sampling, e.ts) = 'expected', 'rate not yet received: bytes are as exported',
        argMax(e.sampling, e.ts) = 'not_understood', 'rate not understood: bytes are as exported',
        without_rate > 0, 'no rate announced: bytes are as exported',
        sum(e.records) > 0, 'rate known',
        ''
    ) AS sampling,
    sum(e.refused) AS refused,
    sum(e.corrected) AS corrected,
    arrayStringConcat(arrayMap(cause -> replaceAll(cause, '_', ' '), mapKeys(sumMap(e.refused_causes))), ', ') AS causes
FROM v_exporters AS e
WHERE {{ within('e.ts', from_dttm, to_dttm) }}
GROUP BY probe, exporter, domain, protocol
