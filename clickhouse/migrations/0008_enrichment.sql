-- What is known of both ends of a record: where they are and whose they are. Numbers are stored, names are looked up.

ALTER TABLE flows
    ADD COLUMN IF NOT EXISTS src_as           UInt32 COMMENT 'Autonomous system of the source, 0 unknown' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS dst_as           UInt32 COMMENT 'Autonomous system of the destination, 0 unknown' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS src_country      UInt16 COMMENT 'Country of the source: first letter * 256 + second, 0 unknown; weir_country() makes letters of it' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS dst_country      UInt16 COMMENT 'Country of the destination, likewise' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS src_prefix       UInt32 COMMENT 'Longest declared prefix that the source was in, by its id in the table prefixes; 0 none' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS dst_prefix       UInt32 COMMENT 'Longest declared prefix that the destination was in, by its id in the table prefixes; 0 none' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS src_customer     UInt32 COMMENT 'Customer of the source''s prefix, by number; 0 none' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS dst_customer     UInt32 COMMENT 'Customer of the destination''s prefix, by number; 0 none' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS site_direction   Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Which way the flow was opened, seen from the probe''s site: out of it, into it, inside it, past it. unknown: the probe has no site, or no prefix is of it' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS nation_direction Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4) COMMENT 'Which way the flow was opened, seen from the nation: out of it, into it, inside it, through it. unknown: no prefix is declared national' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS service          UInt16 COMMENT 'Port of the service that the flow asked for, where it is a registered one (table services); 0 unknown' CODEC(ZSTD(1));

-- Names. Each is a table that is written and a dictionary that answers from memory.

CREATE TABLE IF NOT EXISTS autonomous_systems
(
    ts     DateTime('UTC') COMMENT 'When the file was made that the name is from; the newest holds',
    number UInt32 COMMENT 'Number of the autonomous system',
    name   String COMMENT 'Organisation that runs it'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toYYYYMM(ts)
ORDER BY number
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Names of autonomous systems, from the file that Flink reads (as_database)';
