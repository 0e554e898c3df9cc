-- Alerts that began in the time range, and those open now. `ts` is the begin of the alert; for an open alert the
-- range's end, so that a filter on time keeps it.
WITH found AS
(
    SELECT
        if(a.open, toDateTime({{ until(to_dttm) }} - 1, 'UTC'), toDateTime(a.opened_at, 'UTC')) AS ts,
        a.probe AS probe, if(a.open, 'open', 'ended') AS state, toString(a.severity) AS severity, a.reason AS reason, a.subject AS subject,
        formatDateTime(a.opened_at, '%Y-%m-%d %H:%i:%S', 'UTC') AS opened, a.lasted_s AS lasted_s, a.text AS message
    FROM v_alerts AS a
    WHERE a.open OR (a.opened_at >= toDateTime({{ since(from_dttm) }}, 'UTC') AND a.opened_at < toDateTime({{ until(to_dttm) }}, 'UTC'))
)
SELECT * FROM found
UNION ALL
SELECT toDateTime({{ until(to_dttm) }} - 1, 'UTC'), {{ chosen(filter_values, "probe") }}, 'none', '', '', '', '', 0, 'No alert is open, and none began in this time'
WHERE (SELECT count() FROM found) = 0
