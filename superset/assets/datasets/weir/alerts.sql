-- Alerts that began in the time range, and those open now. `ts` is the start of the alert; for an open alert, the range's end, so that a filter on
-- time keeps it.
WITH found AS
(
    SELECT
        if(a.open, {{ last_second(to_dttm) }}, toDateTime(a.opened_at, 'UTC')) AS ts,
        a.probe AS probe, if(a.open, 'open', 'ended') AS state, toString(a.severity) AS severity, a.reason AS reason, a.subject AS subject,
        formatDateTime(a.opened_at, '%Y-%m-%d %H:%i:%S', 'UTC') AS opened, a.lasted_s AS lasted_s, concat(a.text, if(a.origin = 'agent', ' (says its agent)', '')) AS message
    FROM v_alerts AS a
    WHERE a.open OR ({{ within('a.opened_at', from_dttm, to_dttm) }})
)
SELECT * FROM found
UNION ALL
SELECT {{ last_second(to_dttm) }}, {{ chosen(filter_values, "probe") }}, 'none', '', '', '', '', 0, 'No alert is open, and none began in this time'
WHERE (SELECT count() FROM found) = 0
