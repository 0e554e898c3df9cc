-- The enrolled probes, and the meaning of the numbers in other tables. Weir writes tables; dictionaries answer from memory,
-- and the server reads a dictionary again within a minute.

-- `weir probe add` writes here, and makes the probe's topics.
CREATE TABLE IF NOT EXISTS probes
(
    probe       LowCardinality(String) COMMENT 'Name of the probe',
    workers     UInt16 COMMENT 'Maximum number of the probe''s workers: partitions of its topics',
    interval_ms UInt32 COMMENT 'Length of the probe''s intervals in milliseconds',
    site        String COMMENT 'Site of the probe',
    enrolled_at DateTime('UTC') COMMENT 'When the probe was enrolled',
    updated_at  DateTime64(3, 'UTC') COMMENT 'When this row was written; the newest row counts',
    rank        UInt32 DEFAULT 100 COMMENT 'Rank among the probes that see the same flow: the lower comes first',
    one_way     Bool COMMENT 'True if the probe sees only one direction of each flow'
)
ENGINE = ReplacingMergeTree(updated_at)
ORDER BY probe
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Enrolled probes';

-- One flow, many observers: the rank decides which of the probes that saw a flow counts for it.
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

CREATE TABLE IF NOT EXISTS prefixes
(
    id          UInt32 COMMENT 'Id of this declaration of the prefix; a changed declaration gets another id',
    prefix      String COMMENT 'The prefix, such as 192.0.2.0/24',
    customer_id UInt32 COMMENT 'Number of the customer, 0 none',
    customer    String COMMENT 'Name of the customer',
    site_id     UInt32 COMMENT 'Number of the site, 0 none',
    site        String COMMENT 'Name of the site',
    tags        Array(String) COMMENT 'Tags of the prefix',
    national    Bool COMMENT 'True if the prefix is inside the nation',
    since       DateTime64(3, 'UTC') COMMENT 'When this declaration took effect'
)
ENGINE = ReplacingMergeTree
ORDER BY id
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Every declaration of a prefix so far: the meaning of the ids in flows. weir prefixes list shows the current declarations';

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

CREATE TABLE IF NOT EXISTS autonomous_systems
(
    ts     DateTime('UTC') COMMENT 'Build time of the file that the name comes from; the newest row counts',
    number UInt32 COMMENT 'Number of the autonomous system',
    name   String COMMENT 'Organisation that runs the autonomous system'
)
ENGINE = ReplacingMergeTree(ts)
PARTITION BY toYYYYMM(ts)
ORDER BY number
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Names of autonomous systems, from the file that Flink reads (as_database)';

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

-- Names of applications, as the agent's nDPI numbers them.
CREATE TABLE IF NOT EXISTS applications
(
    number          UInt16 COMMENT 'Number of the application, as in flows',
    name            LowCardinality(String) COMMENT 'Name of the application',
    category        LowCardinality(String) COMMENT 'Category of the application',
    category_number UInt16 COMMENT 'Number of the category, as nDPI numbers them',
    loaded          DateTime('UTC') DEFAULT now() COMMENT 'When the name was loaded; the newest row counts'
)
ENGINE = ReplacingMergeTree(loaded)
ORDER BY number
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Applications that flows may name, from the agent (weir-probe applications)';

CREATE DICTIONARY IF NOT EXISTS application_names
(
    number UInt64,
    name String,
    category String,
    category_number UInt16
)
PRIMARY KEY number
SOURCE(CLICKHOUSE(TABLE 'applications'))
LAYOUT(HASHED())
LIFETIME(MIN 30 MAX 60)
COMMENT 'Names of applications by number';
