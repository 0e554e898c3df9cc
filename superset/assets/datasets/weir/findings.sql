{% set host = chosen_host(filter_values) -%}
-- Lists of suspects, over all probes, in which an address appeared in the time range; and alerts that name it.
WITH {{ host }} AS asked,
found AS
(
    SELECT
        max(s.ts) AS newest, 'list' AS kind, toString(s.list) AS finding,
        {{ finding("toString(s.list)") }} AS meaning,
        max(s.value) AS value, count() AS windows
    FROM v_top_indicators AS s
    WHERE s.scope = 'all' AND s.host = asked
      AND {{ within('s.ts', from_dttm, to_dttm) }}
    GROUP BY s.list
    UNION ALL
    SELECT max(r.ts), 'port report', argMax(r.flags, r.work_weight), concat('TCP work weight; ports ', argMax(r.port_signature, r.work_weight)), max(r.work_weight), count()
    FROM v_port_report AS r
    WHERE r.scope = 'all' AND r.host = asked
      AND {{ within('r.ts', from_dttm, to_dttm) }}
    HAVING count() > 0
    UNION ALL
    SELECT toDateTime(a.opened_at, 'UTC'), 'alert', toString(a.reason), concat(a.text, if(a.origin = 'agent', ' (says its agent)', '')), toUInt64(a.open), 1
    FROM v_alerts AS a
    WHERE a.subject = asked AND (a.open OR a.opened_at >= toDateTime({{ since(from_dttm) }}, 'UTC'))
)
SELECT newest AS ts, kind, finding, meaning, value, windows FROM found
UNION ALL
SELECT {{ last_second(to_dttm) }}, 'none', '', 'In no list of suspects, and no alert names it', 0, 0 WHERE (SELECT count() FROM found) = 0
