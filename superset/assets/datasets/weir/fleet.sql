-- Every enrolled probe, with its latest report in the time range.
SELECT
    {{ last_second(to_dttm) }} AS ts,
    p.probe AS probe,
    p.site AS site,
    multiIf(l.intervals = 0, 'no report in this time', l.state = 'closed', 'reporting', l.state = 'stopped', 'stopped', 'report missing') AS state,
    if(l.intervals = 0, '', formatDateTime(l.newest, '%Y-%m-%d %H:%i:%S', 'UTC')) AS last_report,
    l.agent_version AS agent_version,
    l.source AS source,
    p.workers AS workers,
    l.memory AS memory,
    l.cpu AS cpu,
    l.clock_offset_us AS clock_offset_us
FROM v_probes AS p
LEFT JOIN
(
    SELECT
        r.probe AS probe, count() AS intervals, argMax(r.state, r.ts) AS state, maxIf(r.ts, r.state NOT IN ('missing', 'stopped')) AS newest,
        argMaxIf(toString(r.agent_version), r.ts, r.agent_version != '') AS agent_version, argMaxIf(toString(r.source), r.ts, r.source != '') AS source,
        argMaxIf(r.rss_octets, r.ts, r.rss_octets > 0) AS memory, argMaxIf(r.cpu_permille, r.ts, r.rss_octets > 0) AS cpu,
        argMax(r.clock_offset_us, r.ts) AS clock_offset_us
    FROM v_ledger AS r
    WHERE {{ within('r.ts', from_dttm, to_dttm) }}
    GROUP BY probe
) AS l ON l.probe = p.probe
