//! nProbe's JSON in topics of Kafka.
//!
//! Each probe reads a topic in its own consumer group. Offsets are committed once the resulting records wait only
//! on disk or in Kafka: the next collector reads again what this one did not finish.

use super::{Body, NprobeMessage, Outbox};
use crate::export::nprobe_kafka;
use crate::host::wall_clock_ns;
use crate::packet::{self, Address};
use crate::throttle::Throttle;
use anyhow::Context as _;
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;
use rdkafka::message::{Message as _, Timestamp};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::ToSocketAddrs as _;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the thread waits for a record before it checks for a stop.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long Kafka may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// A topic that nProbe writes to: `brokers;topic`; the rest of nProbe's own syntax is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromTopic {
    brokers: String,
    topic: String,
    /// Properties of librdkafka, such as those of TLS and SASL.
    pub properties: BTreeMap<String, String>,
}

impl FromStr for FromTopic {
    type Err = String;

    fn from_str(text: &str) -> Result<FromTopic, String> {
        let (brokers, topic, _) = nprobe_kafka::parse(text).map_err(|error| error.to_string())?;
        Ok(FromTopic { brokers, topic, properties: BTreeMap::new() })
    }
}

impl fmt::Display for FromTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{};{}", self.brokers, self.topic)
    }
}

impl FromTopic {
    /// The exporter of records that name none: the first broker.
    fn broker(&self) -> Address {
        let first = self.brokers.split(',').next().unwrap_or_default().trim();
        let with_port = if first.contains(':') { first.to_owned() } else { format!("{first}:9092") };
        let resolved = with_port.to_socket_addrs().ok().and_then(|mut all| all.next());
        resolved.map(|address| packet::address(address.ip())).unwrap_or_default()
    }
}

/// A record's position: the index of its source, its partition, and the offset after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TopicOffset {
    source: usize,
    partition: i32,
    next: i64,
}

#[cfg(test)]
impl TopicOffset {
    pub(super) fn of(source: usize, partition: i32, next: i64) -> TopicOffset {
        TopicOffset { source, partition, next }
    }
}

/// Offsets up to which topics were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken(HashMap<(usize, i32), i64>);

impl Taken {
    pub(super) fn add(&mut self, place: TopicOffset) {
        self.0.insert((place.source, place.partition), place.next);
    }

    /// Raises the offsets to those of a later read.
    pub fn extend(&mut self, later: Taken) {
        self.0.extend(later.0);
    }

    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Logs the reports of Kafka's client.
pub(super) struct ReadContext {
    source: String,
    throttle: Throttle,
    /// Whether newly assigned partitions still need their start offset checked.
    assigned: AtomicBool,
}

impl ClientContext for ReadContext {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(facility, "{message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if self.throttle.allow(&error.to_string()) {
            tracing::warn!("cannot read from {}: {reason}; trying again", self.source);
        }
    }
}

impl ConsumerContext for ReadContext {
    fn post_rebalance(&self, _: &BaseConsumer<ReadContext>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(partitions) = rebalance {
            tracing::info!("reading {} of {} partitions", self.source, partitions.count());
            self.assigned.store(true, Ordering::SeqCst);
        }
    }
}

type Consumer = Arc<BaseConsumer<ReadContext>>;

/// Commits offsets.
#[derive(Clone, Default)]
pub struct Committer(Vec<(String, Consumer)>);

impl Committer {
    pub(super) fn add(&mut self, from: &FromTopic, consumer: &Consumer) {
        self.0.push((from.topic.clone(), Arc::clone(consumer)));
    }

    /// Commits the offsets, and waits for the answer if `wait`.
    ///
    /// # Errors
    /// If Kafka refuses the offsets: the messages are then read again after a restart.
    pub fn commit(&self, taken: Taken, wait: bool) -> anyhow::Result<()> {
        let mut lists: BTreeMap<usize, TopicPartitionList> = BTreeMap::new();
        for ((source, partition), next) in taken.0 {
            let list = lists.entry(source).or_default();
            list.add_partition_offset(&self.0[source].0, partition, Offset::Offset(next))?;
        }
        for (source, list) in lists {
            let (topic, consumer) = &self.0[source];
            let committed = consumer.commit(&list, if wait { CommitMode::Sync } else { CommitMode::Async });
            committed.with_context(|| format!("cannot commit the offsets of {topic}"))?;
        }
        Ok(())
    }
}

/// A consumer in the probe's group.
pub(super) fn consumer(from: &FromTopic, probe: &str) -> anyhow::Result<Consumer> {
    let mut config = ClientConfig::new();
    config
        .set("client.id", "weir-probe-collect")
        // Skip messages written before the collector's first start.
        .set("auto.offset.reset", "latest")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        // The consumer does not poll while the worker is behind, and must stay in the group nevertheless.
        .set("max.poll.interval.ms", "86400000")
        .set("topic.metadata.refresh.interval.ms", "10000")
        .set("queued.max.messages.kbytes", "16384");
    for (key, value) in &from.properties {
        config.set(key, value);
    }
    config.set("bootstrap.servers", &from.brokers).set("group.id", format!("weir-collect-{probe}"));
    let context =
        ReadContext { source: from.to_string(), throttle: Throttle::default(), assigned: AtomicBool::new(false) };
    let consumer: BaseConsumer<ReadContext> = config
        .create_with_context(context)
        .with_context(|| format!("{from} cannot be read: see --nprobe-kafka-conf"))?;
    consumer.subscribe(&[&from.topic]).with_context(|| format!("cannot read from {from}"))?;
    Ok(Arc::new(consumer))
}

pub(super) fn read(
    from: FromTopic,
    consumer: Consumer,
    source: usize,
    mut outbox: Outbox,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<JoinHandle<()>> {
    let spawn = std::thread::Builder::new().name("nprobe-kafka".to_owned());
    Ok(spawn.spawn(move || {
        let broker = from.broker();
        let throttle = Throttle::default();
        while !stop.load(Ordering::Relaxed) {
            let context = consumer.context();
            if context.assigned.swap(false, Ordering::SeqCst) {
                if let Err(error) = begin(&consumer) {
                    tracing::warn!("{from}: {error:#}; trying again");
                    context.assigned.store(true, Ordering::SeqCst);
                }
            }
            let patience = if outbox.batch.is_empty() { PATIENCE } else { Duration::ZERO };
            let goes_on = match consumer.poll(patience) {
                Some(Ok(record)) => {
                    let place = TopicOffset { source, partition: record.partition(), next: record.offset() + 1 };
                    let time_ns = written_ns(record.timestamp(), wall_clock_ns());
                    let octets = record.payload().unwrap_or_default().to_vec();
                    outbox.push(NprobeMessage { from: broker, time_ns, body: Body::Record(octets, place) })
                }
                Some(Err(error)) => {
                    if throttle.allow(&error.to_string()) {
                        tracing::warn!("cannot read from {from}: {error}; trying again");
                    }
                    true
                }
                None => outbox.flush(),
            };
            if !goes_on {
                return;
            }
        }
        outbox.flush();
    })?)
}

/// When a message was written, since its records may have no other time. Never later than now, which replaces a missing
/// timestamp.
fn written_ns(timestamp: Timestamp, now_ns: i64) -> i64 {
    let written_ns = timestamp.to_millis().filter(|&ms| ms > 0).map(|ms| ms.saturating_mul(1_000_000));
    written_ns.map_or(now_ns, |written| written.min(now_ns))
}

/// Commits the topic's current end for partitions that the group has never read, so that every later message is read
/// even if this collector ends.
fn begin(consumer: &BaseConsumer<ReadContext>) -> anyhow::Result<()> {
    let committed = consumer.committed(ANSWER).context("cannot read the group's committed offsets")?;
    let mut new = TopicPartitionList::new();
    for partition in committed.elements().iter().filter(|partition| partition.offset() == Offset::Invalid) {
        let (topic, number) = (partition.topic(), partition.partition());
        let (_, end) =
            consumer.fetch_watermarks(topic, number, ANSWER).context("cannot read the topic's end offsets")?;
        new.add_partition_offset(topic, number, Offset::Offset(end))?;
    }
    if new.count() > 0 {
        consumer.commit(&new, CommitMode::Sync).context("cannot commit the group's first offsets")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_written_as_for_nprobe() {
        let from: FromTopic = "127.0.0.1,b:9093;flows;1;snappy".parse().unwrap();
        assert_eq!(
            (from.to_string(), &from.broker()[12..]),
            ("127.0.0.1,b:9093;flows".to_owned(), &[127, 0, 0, 1][..])
        );
        assert!("flows".parse::<FromTopic>().unwrap_err().contains("is not \"brokers;topic\""));
    }

    #[test]
    fn a_message_is_of_when_it_was_written() {
        let now_ns = 9_000_000_000;
        let of = |timestamp| written_ns(timestamp, now_ns);
        let written = [Timestamp::CreateTime(8000), Timestamp::LogAppendTime(7000)].map(of);
        assert_eq!(written, [8_000_000_000, 7_000_000_000]);
        let unknown = [Timestamp::NotAvailable, Timestamp::CreateTime(-1), Timestamp::CreateTime(0)].map(of);
        assert_eq!((unknown, of(Timestamp::CreateTime(i64::MAX))), ([now_ns; 3], now_ns));
    }

    #[test]
    fn what_is_taken_later_holds() {
        let mut taken = Taken::default();
        taken.add(TopicOffset { source: 0, partition: 1, next: 5 });
        let mut later = Taken::default();
        later.add(TopicOffset { source: 0, partition: 1, next: 9 });
        later.add(TopicOffset { source: 1, partition: 1, next: 2 });
        taken.extend(later);
        assert_eq!(taken.0, HashMap::from([((0, 1), 9), ((1, 1), 2)]));
    }
}
