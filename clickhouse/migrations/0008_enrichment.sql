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

CREATE TABLE IF NOT EXISTS prefixes
(
    id          UInt32 COMMENT 'Id of the prefix as it is described in this row; another description has another id',
    prefix      String COMMENT 'The prefix, such as 192.0.2.0/24',
    customer_id UInt32 COMMENT 'Number of the customer, 0 none',
    customer    String COMMENT 'Name of the customer',
    site_id     UInt32 COMMENT 'Number of the site, 0 none',
    site        String COMMENT 'Name of the site',
    tags        Array(String) COMMENT 'Free labels',
    national    Bool COMMENT 'Counts as inside the nation',
    since       DateTime64(3, 'UTC') COMMENT 'From when on it was described so'
)
ENGINE = ReplacingMergeTree
ORDER BY id
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Every prefix that was ever declared, and as what: what the ids in flows mean. What holds now says weir prefixes list';

CREATE TABLE IF NOT EXISTS services
(
    port     UInt16 COMMENT 'Port',
    protocol UInt8 COMMENT 'IP protocol number: 6 TCP, 17 UDP, 132 SCTP',
    name     LowCardinality(String) COMMENT 'Name of the service in IANA''s registry, or the usual one'
)
ENGINE = ReplacingMergeTree
ORDER BY (port, protocol)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Services by port and protocol, from schemas/services.csv';

ALTER TABLE probes
    ADD COLUMN IF NOT EXISTS rank    UInt32 DEFAULT 100 COMMENT 'Place among the probes that see the same flow: the lower comes first',
    ADD COLUMN IF NOT EXISTS one_way Bool COMMENT 'It sees one direction of each flow only';

-- The server reads a dictionary again a minute after it was read last.
CREATE DICTIONARY IF NOT EXISTS prefix_names
(
    id UInt64,
    prefix String,
    customer String,
    site String,
    tags Array(String)
)
PRIMARY KEY id
SOURCE(CLICKHOUSE(TABLE 'prefixes'))
LAYOUT(HASHED())
LIFETIME(MIN 30 MAX 60)
COMMENT 'What the ids of prefixes mean';

CREATE DICTIONARY IF NOT EXISTS customer_names
(
    customer_id UInt64,
    customer String
)
PRIMARY KEY customer_id
SOURCE(CLICKHOUSE(TABLE 'v_customers'))
LAYOUT(HASHED())
LIFETIME(MIN 30 MAX 60)
COMMENT 'Names of customers by number';

CREATE DICTIONARY IF NOT EXISTS autonomous_system_names
(
    number UInt64,
    name String
)
PRIMARY KEY number
SOURCE(CLICKHOUSE(TABLE 'v_autonomous_systems'))
LAYOUT(HASHED())
LIFETIME(MIN 30 MAX 60)
COMMENT 'Names of autonomous systems by number';

CREATE DICTIONARY IF NOT EXISTS service_names
(
    port UInt16,
    protocol UInt8,
    name String
)
PRIMARY KEY port, protocol
SOURCE(CLICKHOUSE(TABLE 'services'))
LAYOUT(COMPLEX_KEY_HASHED())
LIFETIME(MIN 30 MAX 60)
COMMENT 'Names of services by port and protocol';

CREATE OR REPLACE FUNCTION weir_country AS (code) -> if(code = 0, '', concat(char(intDiv(code, 256)), char(code % 256)));
