//! Messages to Kafka, kept until they are acknowledged.
//!
//! Workers encode their messages and put them into a queue whose octets are bounded; one thread brings them to
//! librdkafka, serves its answers and takes back what it could not deliver. The queue counts a message until Kafka
//! has acknowledged it. Nothing in it is given up because time passed: a message is only shed where the queue is full
//! (live captures; replays wait instead), and its sequence number stays used, so that the gap tells.

use super::Sink;
use crate::metrics::Metrics;
use crate::packet::Address;
use crate::proto;
use crate::run::Asked;
use crate::throttle::Throttle;
use anyhow::{Context as _, bail};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use prost::Message as _;
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How to reach Kafka and what to do where it cannot keep up.
#[derive(Clone, Debug)]
pub struct KafkaOptions {
    /// `host:port` of one or more brokers, separated by commas.
    pub brokers: String,
    /// More properties of librdkafka, such as those of TLS and SASL.
    pub properties: BTreeMap<String, String>,
    /// Name of the probe, which names the topics.
    pub probe: String,
    /// Workers, each of which has a partition of its own.
    pub workers: u32,
    /// Octets that may wait.
    pub queue_octets: u64,
    /// Whether a full queue holds its workers up (replays) or sheds (live captures).
    pub wait: bool,
}

/// The two topics of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topic {
    Flows,
    Counters,
}

/// An encoded message on its way.
#[derive(Debug, PartialEq, Eq)]
struct Outgoing {
    /// Its place in the order of all.
    number: usize,
    topic: Topic,
    partition: i32,
    payload: Vec<u8>,
}

/// What the workers, the thread and librdkafka's answers share.
struct Shared {
    options: KafkaOptions,
    topics: [String; 2],
    /// Octets that wait or are on their way.
    queued: AtomicU64,
    /// Messages that do.
    outstanding: AtomicU64,
    undelivered: Mutex<Vec<Outgoing>>,
    metrics: Metrics,
    throttle: Throttle,
    /// Nothing is waited for any longer.
    give_up: Arc<AtomicBool>,
    /// Why Kafka will never take a message, where it said so.
    refused: Mutex<Option<Refused>>,
    /// Topics are there; until then nothing is handed to librdkafka.
    ready: AtomicBool,
    brokers: Brokers,
}

/// Addresses and ports of the brokers: traffic with them is the agent's own.
#[derive(Clone, Default)]
pub struct Brokers(Arc<Endpoints>);

#[derive(Default)]
struct Endpoints {
    known: RwLock<Vec<(Address, u16)>>,
    version: AtomicU64,
}

impl Brokers {
    /// Changes whenever [`Brokers::endpoints`] does.
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    /// The endpoints known by now.
    pub fn endpoints(&self) -> Vec<(Address, u16)> {
        self.0.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Those of the configuration.
    fn add_all(&self, brokers: &str) {
        for broker in brokers.split(',') {
            let broker = broker.trim();
            // Without a port, librdkafka takes 9092.
            if broker.contains(':') { self.add(broker) } else { self.add((broker, 9092)) }
        }
    }

    fn add(&self, host_and_port: impl ToSocketAddrs) {
        // A name that does not resolve (yet) adds nothing; librdkafka says what it cannot reach.
        let Ok(found) = host_and_port.to_socket_addrs() else { return };
        let mut endpoints = self.0.known.write().unwrap_or_else(PoisonError::into_inner);
        for address in found {
            let ip = match address.ip() {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            let endpoint = (ip.octets(), address.port());
            if !endpoints.contains(&endpoint) {
                endpoints.push(endpoint);
                self.0.version.fetch_add(1, Ordering::Release);
            }
        }
    }
}

/// A connection to Kafka for all workers.
pub struct Kafka {
    shared: Arc<Shared>,
    queue: Option<Sender<Outgoing>>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

/// Kafka does not let this client write: a replay ends, a live capture goes on trying.
#[derive(Clone, Debug, thiserror::Error)]
#[error("Kafka refuses this client for {topic} ({error}): run `weir probe add {probe}`, and see [kafka] properties")]
pub struct Refused {
    topic: String,
    error: KafkaError,
    probe: String,
}

/// What one worker sends by.
pub struct KafkaSink {
    shared: Arc<Shared>,
    queue: Sender<Outgoing>,
}

/// Octets of an interval's last messages that always find room: only batches are shed at once.
const RESERVE: u64 = 1 << 20;
/// How often a missing broker or topic is looked for.
const RETRY: Duration = Duration::from_secs(2);
/// How often a live capture asks where the brokers are.
const REFRESH: Duration = Duration::from_secs(60);
/// How long a client that failed may take to give back what it had.
const GIVE_BACK: Duration = Duration::from_secs(5);

impl Kafka {
    /// Begins to send. With `wait`, the topics must be there, and Kafka is waited for; else both are looked for while
    /// messages already queue.
    ///
    /// # Errors
    /// Where a property is wrong, or (with `wait`) a topic is missing.
    pub fn start(options: KafkaOptions, metrics: Metrics, asked: &Asked) -> anyhow::Result<Kafka> {
        let topics = [format!("weir.flows.{}", options.probe), format!("weir.counters.{}", options.probe)];
        let shared = Arc::new(Shared {
            topics,
            queued: AtomicU64::new(0),
            outstanding: AtomicU64::new(0),
            undelivered: Mutex::new(Vec::new()),
            metrics,
            throttle: Throttle::default(),
            give_up: Arc::clone(&asked.give_up),
            refused: Mutex::new(None),
            ready: AtomicBool::new(false),
            brokers: Brokers::default(),
            options,
        });
        shared.brokers.add_all(&shared.options.brokers);
        let producer = producer(&shared)?;
        if shared.options.wait {
            while !shared.ready.load(Ordering::Acquire) {
                match look_for_topics(&producer, &shared) {
                    Look::Found => {}
                    Look::Missing(text) => bail!(text),
                    Look::Away(text) => shared.say_away(&text),
                }
                if asked.stop.load(Ordering::Relaxed) {
                    bail!("stopped while waiting for Kafka at {}", shared.options.brokers);
                }
            }
        }
        // The octets are bounded by `queued`; the channel only has to be there.
        let (queue, receiver) = crossbeam_channel::unbounded();
        let thread = {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name("kafka".to_owned()).spawn(move || send(producer, &shared, &receiver))?
        };
        Ok(Kafka { shared, queue: Some(queue), thread: Some(thread) })
    }

    /// A sink for one worker.
    pub fn sink(&self) -> KafkaSink {
        KafkaSink { shared: Arc::clone(&self.shared), queue: self.queue.clone().expect("not finished") }
    }

    /// Endpoints of the brokers.
    pub fn brokers(&self) -> Brokers {
        self.shared.brokers.clone()
    }

    /// Waits until all that was sent is acknowledged, at most `patience` and until it is asked to give up. Sinks must be
    /// dropped before.
    ///
    /// # Errors
    /// Where messages remain, with their number; [`Refused`] where Kafka will not have them.
    pub fn finish(mut self, patience: Option<Duration>) -> anyhow::Result<()> {
        drop(self.queue.take());
        let deadline = patience.map(|patience| Instant::now() + patience);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        while !thread.is_finished() {
            if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                self.shared.give_up.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        thread.join().map_err(|_| anyhow::anyhow!("the thread that sends to Kafka failed"))?
    }
}

impl Shared {
    fn say_away(&self, text: &str) {
        let waiting = self.queued.load(Ordering::Relaxed);
        if self.throttle.allow("kafka_away") {
            tracing::warn!(
                "Kafka at {} cannot be reached ({text}): trying again every {} s; {waiting} octets wait in memory",
                self.options.brokers,
                RETRY.as_secs()
            );
        }
    }
}

impl KafkaSink {
    fn put(&mut self, topic: Topic, partition: u32, payload: Vec<u8>, kind: Kind) -> anyhow::Result<()> {
        let shared = &self.shared;
        let octets = payload.len() as u64;
        let bound = shared.options.queue_octets;
        let bound = if kind == Kind::Batch { bound } else { bound + RESERVE };
        while shared.queued.load(Ordering::Acquire) + octets > bound {
            if !shared.options.wait || shared.give_up.load(Ordering::Relaxed) {
                shared.metrics.shed("queue_full", octets);
                if shared.throttle.allow("shed") {
                    tracing::error!(
                        "Kafka does not take messages and the queue of {bound} octets is full: messages are shed \
                         (weir_probe_messages_shed_total counts them, gaps in their sequence tell which)"
                    );
                }
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        shared.queued.fetch_add(octets, Ordering::AcqRel);
        shared.outstanding.fetch_add(1, Ordering::AcqRel);
        self.queue
            .send(Outgoing { number: 0, topic, partition: partition as i32, payload })
            .map_err(|_| anyhow::anyhow!("the thread that sends to Kafka has ended"))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Batch,
    Last,
}

impl Sink for KafkaSink {
    fn flows(&mut self, message: &proto::FlowMessage) -> anyhow::Result<()> {
        let kind = match message.body {
            Some(proto::flow_message::Body::Batch(_)) => Kind::Batch,
            _ => Kind::Last,
        };
        self.put(Topic::Flows, message.worker, message.encode_to_vec(), kind)
    }

    fn counters(&mut self, message: &proto::CounterMessage) -> anyhow::Result<()> {
        self.put(Topic::Counters, message.worker, message.encode_to_vec(), Kind::Last)
    }

    fn queued_octets(&self) -> u64 {
        self.shared.queued.load(Ordering::Relaxed)
    }
}

/// librdkafka's answers.
struct Answers(Arc<Shared>);

impl ClientContext for Answers {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(facility, "{message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
        self.0.metrics.kafka_error(&format!("{code:?}"));
        match code {
            RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::AllBrokersDown | RDKafkaErrorCode::Resolve => {
                self.0.say_away(reason);
            }
            _ if self.0.throttle.allow(&format!("{code:?}")) => tracing::warn!("Kafka: {reason}"),
            _ => {}
        }
    }
}

impl ProducerContext for Answers {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        match result {
            Ok(message) => {
                let octets = message.payload_len() as u64;
                self.0.queued.fetch_sub(octets, Ordering::AcqRel);
                self.0.outstanding.fetch_sub(1, Ordering::AcqRel);
                self.0.metrics.delivered(octets);
            }
            Err((error, message)) => {
                let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
                self.0.metrics.kafka_error(&format!("{code:?}"));
                if self.0.throttle.allow(&format!("delivery {code:?}")) {
                    tracing::warn!("Kafka did not take a message for {} ({error}): trying again", message.topic());
                }
                if matches!(
                    code,
                    RDKafkaErrorCode::UnknownTopicOrPartition
                        | RDKafkaErrorCode::UnknownTopic
                        | RDKafkaErrorCode::UnknownPartition
                ) {
                    self.0.ready.store(false, Ordering::Release);
                }
                if self.0.options.wait
                    && matches!(
                        code,
                        RDKafkaErrorCode::TopicAuthorizationFailed | RDKafkaErrorCode::ClusterAuthorizationFailed
                    )
                {
                    let refused = Refused {
                        topic: message.topic().to_owned(),
                        error: error.clone(),
                        probe: self.0.options.probe.clone(),
                    };
                    *self.0.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(refused);
                }
                let topic = if message.topic() == self.0.topics[0] { Topic::Flows } else { Topic::Counters };
                let payload = message.payload().unwrap_or(&[]).to_vec();
                let outgoing = Outgoing { number, topic, partition: message.partition(), payload };
                self.0.undelivered.lock().unwrap_or_else(PoisonError::into_inner).push(outgoing);
            }
        }
    }
}

fn producer(shared: &Arc<Shared>) -> anyhow::Result<BaseProducer<Answers>> {
    let options = &shared.options;
    let mut config = ClientConfig::new();
    config
        .set("client.id", format!("weir-probe-{}", options.probe))
        .set("compression.type", "zstd")
        .set("compression.level", "1")
        .set("linger.ms", "50")
        .set("batch.size", "1000000")
        .set("message.max.bytes", "4000000")
        .set("queue.buffering.max.messages", "10000000")
        .set("queue.buffering.max.kbytes", "2147483647")
        .set("topic.metadata.refresh.interval.ms", "60000")
        .set("reconnect.backoff.max.ms", "2000");
    for (key, value) in &options.properties {
        config.set(key, value);
    }
    // These are what the promises rest on: no property changes them.
    config
        .set("bootstrap.servers", &options.brokers)
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("message.timeout.ms", "0")
        .create_with_context(Answers(Arc::clone(shared)))
        .context("the Kafka client cannot be set up: see [kafka] properties")
}

/// What a look for the probe's topics found.
enum Look {
    Found,
    Missing(String),
    Away(String),
}

/// Asks for all topics: to ask for one by name might make it.
fn look_for_topics(producer: &BaseProducer<Answers>, shared: &Shared) -> Look {
    producer.poll(Duration::ZERO);
    let metadata = match producer.client().fetch_metadata(None, RETRY) {
        Ok(metadata) => metadata,
        Err(error) => return Look::Away(error.to_string()),
    };
    for broker in metadata.brokers() {
        if let Ok(port) = u16::try_from(broker.port()) {
            shared.brokers.add((broker.host(), port));
        }
    }
    let (probe, workers) = (&shared.options.probe, shared.options.workers);
    for name in &shared.topics {
        let Some(topic) = metadata.topics().iter().find(|topic| topic.name() == name) else {
            return Look::Missing(format!(
                "Kafka at {} has no topic {name} that this client may see: run `weir probe add {probe}`",
                shared.options.brokers
            ));
        };
        let partitions = topic.partitions().len();
        if partitions < workers as usize {
            return Look::Missing(format!(
                "topic {name} has {partitions} partitions for {workers} workers, which need one each: run \
                 `weir probe add {probe}` for {workers} workers, or set workers = {partitions}"
            ));
        }
    }
    shared.ready.store(true, Ordering::Release);
    Look::Found
}

/// Asks where the brokers are by now. Names are resolved beside, as that may take long.
fn look_for_brokers(producer: &BaseProducer<Answers>, shared: &Shared) -> std::io::Result<JoinHandle<()>> {
    let found = producer.client().fetch_metadata(None, RETRY).ok();
    let found: Vec<(String, u16)> = found
        .iter()
        .flat_map(|metadata| metadata.brokers())
        .filter_map(|broker| Some((broker.host().to_owned(), u16::try_from(broker.port()).ok()?)))
        .collect();
    let (brokers, configured) = (shared.brokers.clone(), shared.options.brokers.clone());
    std::thread::Builder::new().name("brokers".to_owned()).spawn(move || {
        brokers.add_all(&configured);
        found.iter().for_each(|(host, port)| brokers.add((host.as_str(), *port)));
    })
}

/// Puts messages that came back to their places before those that were not sent yet.
fn take_back(pending: &mut VecDeque<Outgoing>, returned: Vec<Outgoing>) {
    pending.extend(returned);
    pending.make_contiguous().sort_by_key(|outgoing| outgoing.number);
}

/// Brings messages to librdkafka until the queue is closed and everything is acknowledged.
fn send(
    mut producer: BaseProducer<Answers>,
    shared: &Arc<Shared>,
    receiver: &Receiver<Outgoing>,
) -> anyhow::Result<()> {
    let mut pending: VecDeque<Outgoing> = VecDeque::new();
    let mut open = true;
    let mut look_at = Instant::now();
    let mut refresh_at = Instant::now() + REFRESH;
    let mut refreshing: Option<JoinHandle<()>> = None;
    let mut numbers = 0..;
    // Something came back: until all is answered, nothing new may overtake it.
    let mut held = false;
    loop {
        match receiver.recv_timeout(Duration::from_millis(5)) {
            Ok(outgoing) => {
                let arrived = std::iter::once(outgoing).chain(receiver.try_iter().take(1000));
                pending.extend(arrived.zip(&mut numbers).map(|(outgoing, number)| Outgoing { number, ..outgoing }));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                open = false;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        if !shared.ready.load(Ordering::Acquire) && Instant::now() >= look_at {
            match look_for_topics(&producer, shared) {
                Look::Found => tracing::info!("Kafka at {} is there", shared.options.brokers),
                Look::Missing(text) => {
                    if shared.throttle.allow("topic_missing") {
                        tracing::error!("{text}; messages wait in memory until then");
                    }
                }
                Look::Away(text) => shared.say_away(&text),
            }
            look_at = Instant::now() + RETRY;
        }
        if !shared.options.wait
            && shared.ready.load(Ordering::Acquire)
            && Instant::now() >= refresh_at
            && refreshing.as_ref().is_none_or(JoinHandle::is_finished)
        {
            refreshing = look_for_brokers(&producer, shared).ok();
            refresh_at = Instant::now() + REFRESH;
        }
        while !held
            && shared.ready.load(Ordering::Acquire)
            && let Some(outgoing) = pending.pop_front()
        {
            let name = &shared.topics[outgoing.topic as usize];
            let record = BaseRecord::<(), [u8], usize>::with_opaque_to(name, outgoing.number)
                .partition(outgoing.partition)
                .payload(&outgoing.payload);
            if let Err((error, _)) = producer.send(record) {
                pending.push_front(outgoing);
                if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal)
                    || producer.client().fatal_error().is_some()
                {
                    renew(&mut producer, shared)?;
                } else if shared.throttle.allow("send") {
                    tracing::warn!("Kafka's client does not take a message ({error}): trying again");
                }
                break;
            }
        }
        producer.poll(Duration::ZERO);
        held |= !shared.undelivered.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if held {
            if producer.client().fatal_error().is_some() {
                renew(&mut producer, shared)?;
            }
            // Whatever refused them needs time.
            producer.poll(Duration::from_millis(100));
            if producer.in_flight_count() == 0 {
                let returned = std::mem::take(&mut *shared.undelivered.lock().unwrap_or_else(PoisonError::into_inner));
                take_back(&mut pending, returned);
                held = false;
            }
        }
        shared.metrics.queue(shared.queued.load(Ordering::Relaxed));
        if let Some(refused) = shared.refused.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // Workers that wait for room are let go.
            shared.give_up.store(true, Ordering::Relaxed);
            bail!(refused);
        }
        let outstanding = shared.outstanding.load(Ordering::Acquire);
        if !open && outstanding == 0 {
            return Ok(());
        }
        if shared.give_up.load(Ordering::Relaxed) {
            bail!("{outstanding} messages ({} octets) were not taken by Kafka", shared.queued.load(Ordering::Relaxed));
        }
    }
}

/// After an error that librdkafka cannot recover from: a new client sends what the old one had not delivered, and
/// readers drop what they had already, by its sequence.
fn renew(producer: &mut BaseProducer<Answers>, shared: &Arc<Shared>) -> anyhow::Result<()> {
    let reason = producer.client().fatal_error().map_or_else(String::new, |(_, reason)| reason);
    tracing::error!("Kafka's client failed ({reason}): it is set up anew");
    producer.purge(rdkafka::producer::PurgeConfig::default().queue().inflight());
    let deadline = Instant::now() + GIVE_BACK;
    while producer.in_flight_count() > 0 && Instant::now() < deadline {
        producer.poll(Duration::from_millis(10));
    }
    *producer = self::producer(shared)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_goes_out_in_its_old_order() {
        let message = |number| Outgoing { number, topic: Topic::Flows, partition: 0, payload: Vec::new() };
        let mut pending: VecDeque<Outgoing> = [5, 6].map(message).into();
        take_back(&mut pending, [4, 1, 3].map(message).into());
        assert_eq!(pending, [1, 3, 4, 5, 6].map(message));
    }
}
