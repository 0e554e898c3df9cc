-- Alerts on hosts, prefixes and customers say what kind of subject they have, and their evidence.
ALTER TABLE alerts
    MODIFY COLUMN reason COMMENT 'Cause in snake case: probe_silent, probe_late, probe_drops, clock_off, ledger_incomplete, lag_growing, checkpoints_failing, jobs_clock_ahead, or a detector''s: scan_horizontal, scan_vertical, syn_flood, reflection, password_guessing',
    MODIFY COLUMN probe COMMENT 'Name of the probe that the alert is about; empty for others',
    MODIFY COLUMN subject COMMENT 'What the alert is about: an address, a prefix, a customer''s id, or a part of the probe; empty for the probe itself',
    ADD COLUMN IF NOT EXISTS subject_kind LowCardinality(String) COMMENT 'Kind of the subject: host, prefix, customer, as or signature; empty for a probe or a part of one' AFTER version,
    ADD COLUMN IF NOT EXISTS technique LowCardinality(String) COMMENT 'Technique of MITRE ATT&CK, such as T1046; empty if none fits' AFTER subject_kind,
    ADD COLUMN IF NOT EXISTS peers Map(String, UInt64) COMMENT 'The first addresses at the other end, at most ten, with what is counted of each' AFTER technique,
    ADD COLUMN IF NOT EXISTS ports Array(UInt64) COMMENT 'The ports that it concerns, at most ten, the most frequent first' AFTER peers,
    ADD COLUMN IF NOT EXISTS probes Map(LowCardinality(String), UInt64) COMMENT 'The probes that saw it, with what each counted; empty for an alert about a probe' AFTER ports,
    ADD COLUMN IF NOT EXISTS score Float64 COMMENT 'The value that was compared with the threshold' AFTER probes,
    ADD COLUMN IF NOT EXISTS threshold Float64 COMMENT 'That threshold; 0 for an alert without one' AFTER score,
    ADD COLUMN IF NOT EXISTS query String COMMENT 'SQL that shows the evidence in the stored rows' AFTER threshold;

ALTER TABLE agent_alerts
    ADD COLUMN IF NOT EXISTS subject_kind LowCardinality(String) COMMENT 'Kind of the subject: host, prefix, customer, as or signature; empty for a probe or a part of one' AFTER version,
    ADD COLUMN IF NOT EXISTS technique LowCardinality(String) COMMENT 'Technique of MITRE ATT&CK, such as T1046; empty if none fits' AFTER subject_kind,
    ADD COLUMN IF NOT EXISTS peers Map(String, UInt64) COMMENT 'The first addresses at the other end, at most ten, with what is counted of each' AFTER technique,
    ADD COLUMN IF NOT EXISTS ports Array(UInt64) COMMENT 'The ports that it concerns, at most ten, the most frequent first' AFTER peers,
    ADD COLUMN IF NOT EXISTS probes Map(LowCardinality(String), UInt64) COMMENT 'The probes that saw it, with what each counted; empty for an alert about a probe' AFTER ports,
    ADD COLUMN IF NOT EXISTS score Float64 COMMENT 'The value that was compared with the threshold' AFTER probes,
    ADD COLUMN IF NOT EXISTS threshold Float64 COMMENT 'That threshold; 0 for an alert without one' AFTER score,
    ADD COLUMN IF NOT EXISTS query String COMMENT 'SQL that shows the evidence in the stored rows' AFTER threshold;
