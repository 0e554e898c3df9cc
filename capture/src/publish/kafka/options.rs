//! How to reach Kafka, and the behaviour if it cannot keep up.

use crate::publish::spool::SpoolOptions;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Clone, Debug)]
pub struct KafkaOptions {
    /// `host:port` of one or more brokers, separated by commas.
    pub brokers: String,
    /// File of the credentials, read whenever a client is set up; its brokers take the place of those above.
    pub credentials: Option<PathBuf>,
    /// More properties of librdkafka, such as those of TLS and SASL.
    pub properties: BTreeMap<String, String>,
    /// Name of the probe, which names the topics.
    pub probe: String,
    /// Workers, each of which has a partition of its own.
    pub workers: u32,
    /// Bound of the queue in memory.
    pub queue_octets: u64,
    /// Whether a full queue blocks its workers (replays) or sheds messages (live captures).
    pub wait: bool,
    /// Where to keep messages that Kafka does not accept; `None`: only in memory.
    pub spool: Option<SpoolOptions>,
}
