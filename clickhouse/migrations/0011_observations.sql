-- One flow, many observers: which of the probes that saw a flow counts for it.

CREATE DICTIONARY IF NOT EXISTS probe_places
(
    probe String,
    rank UInt32 DEFAULT 100,
    one_way Bool
)
PRIMARY KEY probe
SOURCE(CLICKHOUSE(TABLE 'v_probes'))
LAYOUT(COMPLEX_KEY_HASHED())
LIFETIME(MIN 30 MAX 60)
COMMENT 'Rank of probes, and which of them see one direction only';
