CREATE OR REPLACE VIEW v_alerts
(
    id String COMMENT 'Id of the alert; the key of its messages on weir.alerts',
    open Bool COMMENT 'The condition lasts',
    origin String COMMENT 'Who raised the alert: jobs, or agent, which is anybody with the credentials of the probe',
    LIKE alerts (severity, reason, probe, subject_kind, subject, opened_at),
    closed_at Nullable(DateTime64(3, 'UTC')) COMMENT 'When the condition ended; NULL while it lasts',
    lasted_s UInt64 COMMENT 'How long the condition lasted, or has lasted so far, in seconds',
    updated_at DateTime64(3, 'UTC') COMMENT 'When a job, or the agent, last updated the alert',
    LIKE alerts (text, technique, score, threshold, values, peers, ports, probes, query),
    version UInt32 COMMENT 'Grows each time that the alert is written; the view shows the newest version'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    a.id AS id, toBool(toUnixTimestamp64Milli(a.closed_at) = 0) AS open, a.origin AS origin, a.severity AS severity, a.reason AS reason,
    a.probe AS probe, a.subject_kind AS subject_kind, a.subject AS subject, a.opened_at AS opened_at,
    if(open, NULL, a.closed_at) AS closed_at,
    toUInt64(greatest(0, dateDiff('second', a.opened_at, if(open, now64(3, 'UTC'), a.closed_at)))) AS lasted_s,
    a.updated_at AS updated_at, a.text AS text,
    a.technique AS technique, a.score AS score, a.threshold AS threshold, a.values AS values, a.peers AS peers, a.ports AS ports,
    a.probes AS probes, a.query AS query, a.version AS version
FROM (SELECT 'jobs' AS origin, * FROM alerts FINAL UNION ALL SELECT 'agent' AS origin, * FROM agent_alerts FINAL) AS a
ORDER BY open DESC, severity DESC, opened_at DESC
COMMENT 'Alerts on hosts, prefixes, customers and probes, and alerts of agents, the newest version of each: open ones first, the most severe at the top';
