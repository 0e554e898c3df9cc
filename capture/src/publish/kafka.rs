//! Messages to Kafka, kept until they are acknowledged.
//!
//! Workers encode their messages and put them into a queue whose octets are bounded; one thread brings them to
//! librdkafka, serves its answers and takes back what it could not deliver. The queue counts a message until Kafka
//! has acknowledged it. Nothing in it is given up because time passed: a message is only shed where the queue is full
//! (live captures; replays wait instead), and its sequence number stays used, so that the gap tells.
//!
//! A live capture has a [`spool`](super::spool) on disk behind that queue. While Kafka is away all messages are in it;
//! while Kafka is slow, those that came after half of the queue was full. There is one order for all: what librdkafka has
//! is older than what is in the spool, and what comes while something is in the spool goes behind it.

use super::kafka_metrics::KafkaMetrics;
use super::spool::{Amount, Spool, SpoolOptions, SpoolPlace};
use super::topic::{Topic, TopicMessage};
use super::{Encoded, Sink};
use crate::own_traffic::{OwnTraffic, TCP};
use crate::proto;
use crate::signals::Asked;
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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    /// Where messages go that Kafka does not take; `None`: they wait in memory alone.
    pub spool: Option<SpoolOptions>,
}

/// What librdkafka gives back with its answer for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticket {
    /// Its place in the order of all.
    number: u64,
    /// Where it is in the spool, if it came from there.
    place: Option<SpoolPlace>,
}

/// An encoded message on its way.
#[derive(Debug, PartialEq, Eq)]
struct Outgoing {
    ticket: Ticket,
    message: TopicMessage,
}

/// What the workers, the thread and librdkafka's answers share.
struct KafkaShared {
    options: KafkaOptions,
    topics: [String; 2],
    /// Octets that wait or are on their way.
    queued: AtomicU64,
    /// Messages that do.
    outstanding: AtomicU64,
    undelivered: Mutex<Vec<Outgoing>>,
    /// Acknowledged, of the spool.
    replayed: Mutex<Vec<SpoolPlace>>,
    /// Messages acknowledged.
    delivered: AtomicU64,
    /// Octets in the spool, and whether it cannot be written.
    spooled: AtomicU64,
    spool_fails: AtomicBool,
    metrics: KafkaMetrics,
    throttle: Throttle,
    /// Nothing is waited for any longer.
    give_up: Arc<AtomicBool>,
    /// Why Kafka will never take a message, where it said so.
    refused: Mutex<Option<Refused>>,
    /// Topics are there; until then nothing is handed to librdkafka.
    ready: AtomicBool,
    brokers: OwnTraffic,
}

/// A connection to Kafka for all workers.
pub struct Kafka {
    shared: Arc<KafkaShared>,
    queue: Option<Sender<TopicMessage>>,
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
    shared: Arc<KafkaShared>,
    queue: Sender<TopicMessage>,
}

/// Octets of an interval's last messages that always find room: only batches are shed at once.
const RESERVE: u64 = 1 << 20;
/// How often a missing broker or topic is looked for.
const RETRY: Duration = Duration::from_secs(2);
/// How often a live capture asks where the brokers are.
const REFRESH: Duration = Duration::from_secs(60);
/// How long a client that failed may take to give back what it had.
const GIVE_BACK: Duration = Duration::from_secs(5);
/// Kafka is away when it acknowledges nothing for this time although messages wait for it.
const AWAY: Duration = Duration::from_secs(5);
/// How long the queue is listened to, with something under way and without.
const BUSY: Duration = Duration::from_millis(5);
const QUIET: Duration = Duration::from_millis(100);
/// Messages of the spool that are on their way at once: the others stay where they take no memory.
const REPLAYED_AT_ONCE: i32 = 256;
/// How often what was spooled is brought to the disk, and how soon one that failed is tried again.
const SYNC: Duration = Duration::from_secs(1);

impl Kafka {
    /// Begins to send. With `wait`, the topics must be there, and Kafka is waited for; else both are looked for while
    /// messages already queue.
    ///
    /// # Errors
    /// Where a property is wrong, or (with `wait`) a topic is missing.
    pub fn start(options: KafkaOptions, metrics: KafkaMetrics, asked: &Asked) -> anyhow::Result<Kafka> {
        let topics = [format!("weir.flows.{}", options.probe), format!("weir.counters.{}", options.probe)];
        let shared = Arc::new(KafkaShared {
            topics,
            queued: AtomicU64::new(0),
            outstanding: AtomicU64::new(0),
            undelivered: Mutex::new(Vec::new()),
            replayed: Mutex::new(Vec::new()),
            delivered: AtomicU64::new(0),
            spooled: AtomicU64::new(0),
            spool_fails: AtomicBool::new(false),
            metrics,
            throttle: Throttle::default(),
            give_up: Arc::clone(&asked.give_up),
            refused: Mutex::new(None),
            ready: AtomicBool::new(false),
            brokers: OwnTraffic::default(),
            options,
        });
        shared.brokers.add_all(&shared.options.brokers);
        let producer = producer(&shared)?;
        let spool = shared.options.spool.clone().and_then(|options| open_spool(options, &shared));
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
            std::thread::Builder::new()
                .name("kafka".to_owned())
                .spawn(move || Sending::new(producer, shared, spool).run(&receiver))?
        };
        Ok(Kafka { shared, queue: Some(queue), thread: Some(thread) })
    }

    pub fn sink(&self) -> KafkaSink {
        KafkaSink { shared: Arc::clone(&self.shared), queue: self.queue.clone().expect("not finished") }
    }

    pub fn brokers(&self) -> OwnTraffic {
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

impl KafkaShared {
    fn say_away(&self, text: &str) {
        let waiting = self.queued.load(Ordering::Relaxed);
        if self.throttle.allow("kafka_away") {
            tracing::warn!(
                "Kafka at {} cannot be reached ({text}): trying again every {} s; {waiting} octets wait in memory, \
                 {} in the spool",
                self.options.brokers,
                RETRY.as_secs(),
                self.spooled.load(Ordering::Relaxed)
            );
        }
    }

    /// Says how large the spool is.
    fn spooled(&self, octets: u64) {
        self.spooled.store(octets, Ordering::Relaxed);
        self.metrics.spool(octets);
    }

    /// Counts messages that are no longer in memory.
    fn leave_memory(&self, messages: u64, octets: u64) {
        self.queued.fetch_sub(octets, Ordering::AcqRel);
        self.outstanding.fetch_sub(messages, Ordering::AcqRel);
    }

    /// Counts what the spool gave up.
    fn shed(&self, cause: &'static str, Amount { messages, octets }: Amount) {
        if messages == 0 {
            return;
        }
        self.metrics.shed(cause, messages, octets);
        if self.throttle.allow(cause) {
            tracing::error!(
                "the spool gave up {messages} messages ({cause}; weir_probe_messages_shed_total counts them, gaps in \
                 their sequence tell which)"
            );
        }
    }

    /// Says why the spool does not take messages.
    fn spool_failed(&self, error: &std::io::Error) {
        self.spool_fails.store(true, Ordering::Relaxed);
        self.metrics.spool_error();
        if self.throttle.allow(&format!("spool {:?}", error.kind())) {
            tracing::error!("cannot write to the spool ({error}): messages wait in memory, as long as it lasts");
        }
    }
}

fn open_spool(options: SpoolOptions, shared: &KafkaShared) -> Option<Spool> {
    let spool = Spool::open(options)
        .inspect_err(|error| {
            shared.metrics.spool_error();
            tracing::error!("{error:#}: what Kafka does not take waits in memory alone");
        })
        .ok()?;
    if !spool.is_empty() {
        let (messages, octets) = (spool.unread(), spool.octets());
        tracing::info!("{messages} messages ({octets} octets) of an earlier run are in the spool, and go first");
    }
    shared.spooled(spool.octets());
    Some(spool)
}

impl KafkaSink {
    /// Puts a message into the queue, which then holds at most `bound` octets.
    fn put(&mut self, topic: Topic, partition: u32, payload: Vec<u8>, bound: u64) -> anyhow::Result<()> {
        let shared = &self.shared;
        let octets = payload.len() as u64;
        while shared.queued.load(Ordering::Acquire) + octets > bound {
            if !shared.options.wait || shared.give_up.load(Ordering::Relaxed) {
                let fails = shared.spool_fails.load(Ordering::Relaxed);
                let cause = if fails { "spool_unwritable" } else { "queue_full" };
                shared.metrics.shed(cause, 1, octets);
                if shared.throttle.allow("shed") {
                    tracing::error!(
                        "Kafka does not take messages and the queue of {bound} octets is full ({cause}): messages are \
                         shed (weir_probe_messages_shed_total counts them, gaps in their sequence tell which)"
                    );
                }
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        shared.queued.fetch_add(octets, Ordering::AcqRel);
        shared.outstanding.fetch_add(1, Ordering::AcqRel);
        self.queue
            .send(TopicMessage { topic, partition: partition as i32, payload })
            .map_err(|_| anyhow::anyhow!("the thread that sends to Kafka has ended"))
    }
}

impl Sink for KafkaSink {
    fn flows(&mut self, message: Encoded<'_>) -> anyhow::Result<()> {
        let bound = self.shared.options.queue_octets;
        let bound = if message.is_batch { bound } else { bound + RESERVE };
        self.put(Topic::Flows, message.worker, message.octets.to_vec(), bound)
    }

    fn counters(&mut self, message: &proto::CounterMessage) -> anyhow::Result<()> {
        let bound = self.shared.options.queue_octets + RESERVE;
        self.put(Topic::Counters, message.worker, message.encode_to_vec(), bound)
    }

    fn queued_octets(&self) -> u64 {
        self.shared.queued.load(Ordering::Relaxed)
    }

    fn spooled_octets(&self) -> u64 {
        self.shared.spooled.load(Ordering::Relaxed)
    }
}

/// librdkafka's answers.
struct Answers(Arc<KafkaShared>);

impl ClientContext for Answers {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(facility, "{message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
        self.0.metrics.error(&format!("{code:?}"));
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
    type DeliveryOpaque = Box<Ticket>;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: Box<Ticket>) {
        match result {
            Ok(message) => {
                let octets = message.payload_len() as u64;
                self.0.leave_memory(1, octets);
                self.0.metrics.delivered(octets);
                self.0.delivered.fetch_add(1, Ordering::Relaxed);
                if let Some(place) = ticket.place {
                    self.0.metrics.replayed(octets);
                    self.0.replayed.lock().unwrap_or_else(PoisonError::into_inner).push(place);
                }
            }
            Err((error, message)) => {
                let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
                let asked_back = matches!(code, RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight);
                if !asked_back {
                    self.0.metrics.error(&format!("{code:?}"));
                }
                if !asked_back && self.0.throttle.allow(&format!("delivery {code:?}")) {
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
                let message = TopicMessage { topic, partition: message.partition(), payload };
                let outgoing = Outgoing { ticket: *ticket, message };
                self.0.undelivered.lock().unwrap_or_else(PoisonError::into_inner).push(outgoing);
            }
        }
    }
}

fn producer(shared: &Arc<KafkaShared>) -> anyhow::Result<BaseProducer<Answers>> {
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
fn look_for_topics(producer: &BaseProducer<Answers>, shared: &KafkaShared) -> Look {
    producer.poll(Duration::ZERO);
    let metadata = match producer.client().fetch_metadata(None, RETRY) {
        Ok(metadata) => metadata,
        Err(error) => return Look::Away(error.to_string()),
    };
    for broker in metadata.brokers() {
        if let Ok(port) = u16::try_from(broker.port()) {
            shared.brokers.add((broker.host(), port), TCP);
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
fn look_for_brokers(producer: &BaseProducer<Answers>, shared: &KafkaShared) -> std::io::Result<JoinHandle<()>> {
    let found = producer.client().fetch_metadata(None, RETRY).ok();
    let found: Vec<(String, u16)> = found
        .iter()
        .flat_map(|metadata| metadata.brokers())
        .filter_map(|broker| Some((broker.host().to_owned(), u16::try_from(broker.port()).ok()?)))
        .collect();
    let (brokers, configured) = (shared.brokers.clone(), shared.options.brokers.clone());
    std::thread::Builder::new().name("brokers".to_owned()).spawn(move || {
        brokers.add_all(&configured);
        found.iter().for_each(|(host, port)| brokers.add((host.as_str(), *port), TCP));
    })
}

/// Puts messages that came back to their places before those that were not sent yet.
fn take_back(pending: &mut VecDeque<Outgoing>, returned: Vec<Outgoing>) {
    pending.extend(returned);
    pending.make_contiguous().sort_by_key(|outgoing| outgoing.ticket.number);
}

fn take<T>(from: &Mutex<Vec<T>>) -> Vec<T> {
    std::mem::take(&mut *from.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Brings messages to librdkafka, by way of the spool where Kafka does not take them.
///
/// In order: what librdkafka has, `pending`, what is in the spool, `incoming`. What librdkafka and `pending` have of the
/// spool is in it as well until it is acknowledged.
struct Sending {
    producer: BaseProducer<Answers>,
    shared: Arc<KafkaShared>,
    spool: Option<Spool>,
    pending: VecDeque<Outgoing>,
    incoming: VecDeque<TopicMessage>,
    next_number: u64,
    /// Something came back: until all is answered, nothing new may overtake it.
    held: bool,
    /// Kafka is away, or a topic is missing.
    away: bool,
    /// Messages acknowledged when there was last progress, and when that was.
    progress: (u64, Instant),
    look_at: Instant,
    refresh_at: Instant,
    refreshing: Option<JoinHandle<()>>,
    /// When the spool is brought to the disk next, and tried again after a failure.
    sync_at: Instant,
    write_at: Instant,
}

impl Sending {
    fn new(producer: BaseProducer<Answers>, shared: Arc<KafkaShared>, spool: Option<Spool>) -> Sending {
        let now = Instant::now();
        Sending {
            producer,
            shared,
            spool,
            pending: VecDeque::new(),
            incoming: VecDeque::new(),
            next_number: 0,
            held: false,
            away: false,
            progress: (0, now),
            look_at: now,
            refresh_at: now + REFRESH,
            refreshing: None,
            sync_at: now,
            write_at: now,
        }
    }

    /// Until the queue is closed and everything is acknowledged, or, with Kafka away, in the spool.
    fn run(mut self, receiver: &Receiver<TopicMessage>) -> anyhow::Result<()> {
        let mut open = true;
        loop {
            let busy = !self.pending.is_empty() || self.producer.in_flight_count() > 0 || self.replays();
            match receiver.recv_timeout(if busy { BUSY } else { QUIET }) {
                Ok(message) => self.incoming.extend(std::iter::once(message).chain(receiver.try_iter().take(1000))),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    open = false;
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            self.look()?;
            self.sort_incoming();
            self.send_pending()?;
            self.replay()?;
            self.serve()?;
            let shared = &self.shared;
            shared.metrics.queue(shared.queued.load(Ordering::Relaxed));
            if let Some(refused) = shared.refused.lock().unwrap_or_else(PoisonError::into_inner).take() {
                // Workers that wait for room are let go.
                shared.give_up.store(true, Ordering::Relaxed);
                bail!(refused);
            }
            let finished = !open;
            let give_up = shared.give_up.load(Ordering::Relaxed);
            if finished && (self.away || give_up) {
                self.away = true;
                self.empty_client()?;
                self.sort_incoming();
            }
            let outstanding = self.shared.outstanding.load(Ordering::Acquire);
            let replayed = self.spool.as_ref().is_none_or(Spool::is_empty);
            if finished && outstanding == 0 && (replayed || self.away) {
                self.leave();
                return Ok(());
            }
            // With a spool, workers hand over what they have first.
            if give_up && (finished || self.spool.is_none()) {
                let octets = self.shared.queued.load(Ordering::Relaxed);
                bail!("{outstanding} messages ({octets} octets) were not taken by Kafka");
            }
        }
    }

    /// Whether there is something in the spool that could be sent.
    fn replays(&self) -> bool {
        let unread = self.spool.as_ref().is_some_and(|spool| spool.unread() > 0);
        unread && !self.away && self.shared.ready.load(Ordering::Acquire)
    }

    /// Finds out whether Kafka and the topics are there.
    fn look(&mut self) -> anyhow::Result<()> {
        let shared = Arc::clone(&self.shared);
        let now = Instant::now();
        if !shared.ready.load(Ordering::Acquire) && now >= self.look_at {
            match look_for_topics(&self.producer, &shared) {
                Look::Found => {
                    if shared.throttle.allow("kafka_there") {
                        tracing::info!("Kafka at {} is there", shared.options.brokers);
                    }
                    self.away = false;
                    self.progress.1 = Instant::now();
                }
                Look::Missing(text) => {
                    if shared.throttle.allow("topic_missing") {
                        let place = if self.spool.is_some() { "the spool" } else { "memory" };
                        tracing::error!("{text}; messages wait in {place} until then");
                    }
                    self.away = true;
                }
                Look::Away(text) => {
                    shared.say_away(&text);
                    self.away = true;
                }
            }
            self.look_at = Instant::now() + RETRY;
            if self.away {
                self.empty_client()?;
            }
        }
        let delivered = shared.delivered.load(Ordering::Relaxed);
        let waits = self.producer.in_flight_count() > 0 || !self.pending.is_empty();
        if delivered != self.progress.0 || !waits {
            self.progress = (delivered, now);
        } else if self.spool.is_some() && !self.away && now.duration_since(self.progress.1) >= AWAY {
            shared.say_away(&format!("nothing was acknowledged for {} s", AWAY.as_secs()));
            shared.ready.store(false, Ordering::Release);
            self.away = true;
            self.look_at = now;
            self.empty_client()?;
        }
        if !shared.options.wait
            && shared.ready.load(Ordering::Acquire)
            && now >= self.refresh_at
            && self.refreshing.as_ref().is_none_or(JoinHandle::is_finished)
        {
            self.refreshing = look_for_brokers(&self.producer, &shared).ok();
            self.refresh_at = Instant::now() + REFRESH;
        }
        Ok(())
    }

    /// Sends new messages the way that keeps the order: behind what is in the spool, if anything is.
    fn sort_incoming(&mut self) {
        if self.away {
            self.keep_pending();
        }
        let shared = Arc::clone(&self.shared);
        if let Some(spool) = &mut self.spool {
            let now = Instant::now();
            let full = shared.queued.load(Ordering::Relaxed) > shared.options.queue_octets / 2;
            if !self.away && !full && spool.unread() == 0 {
                if !spool.is_empty() {
                    // The last answers for what was in the spool are soon there.
                    return;
                }
            } else if now >= self.write_at {
                let mut shed = Amount::default();
                while let Some(message) = self.incoming.front() {
                    if let Err(error) = spool.push(message, &mut shed) {
                        shared.spool_failed(&error);
                        self.write_at = now + SYNC;
                        break;
                    }
                    let octets = message.payload.len() as u64;
                    shared.leave_memory(1, octets);
                    shared.metrics.spooled(1, octets);
                    shared.spool_fails.store(false, Ordering::Relaxed);
                    self.incoming.pop_front();
                }
                shared.shed("spool_full", shed);
            }
            if now >= self.sync_at {
                if let Err(error) = spool.sync() {
                    shared.spool_failed(&error);
                }
                self.sync_at = now + SYNC;
            }
            shared.spooled(spool.octets());
            if !spool.is_empty() {
                return;
            }
        }
        for message in self.incoming.drain(..) {
            let ticket = Ticket { number: self.next_number, place: None };
            self.next_number += 1;
            self.pending.push_back(Outgoing { ticket, message });
        }
    }

    fn send_pending(&mut self) -> anyhow::Result<()> {
        while !self.held
            && self.shared.ready.load(Ordering::Acquire)
            && let Some(outgoing) = self.pending.pop_front()
        {
            let name = &self.shared.topics[outgoing.message.topic as usize];
            let record = BaseRecord::<(), [u8], Box<Ticket>>::with_opaque_to(name, Box::new(outgoing.ticket))
                .partition(outgoing.message.partition)
                .payload(&outgoing.message.payload);
            if let Err((error, _)) = self.producer.send(record) {
                self.pending.push_front(outgoing);
                if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal)
                    || self.producer.client().fatal_error().is_some()
                {
                    self.say_failed();
                    renew(&mut self.producer, &self.shared)?;
                } else if self.shared.throttle.allow("send") {
                    tracing::warn!("Kafka's client does not take a message ({error}): trying again");
                }
                break;
            }
        }
        Ok(())
    }

    /// Sends what is in the spool, a few messages at once.
    fn replay(&mut self) -> anyhow::Result<()> {
        let mut shed = Amount::default();
        while !self.held
            && self.pending.is_empty()
            && self.replays()
            && self.producer.in_flight_count() < REPLAYED_AT_ONCE
            && let Some((place, message)) = self.spool.as_mut().and_then(|spool| spool.next(&mut shed))
        {
            self.shared.queued.fetch_add(message.payload.len() as u64, Ordering::AcqRel);
            self.shared.outstanding.fetch_add(1, Ordering::AcqRel);
            let ticket = Ticket { number: self.next_number, place: Some(place) };
            self.next_number += 1;
            self.pending.push_back(Outgoing { ticket, message });
            self.send_pending()?;
        }
        self.shared.shed("spool_broken", shed);
        Ok(())
    }

    /// Serves librdkafka's answers.
    fn serve(&mut self) -> anyhow::Result<()> {
        self.producer.poll(Duration::ZERO);
        self.held |= !self.shared.undelivered.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if self.held {
            if self.producer.client().fatal_error().is_some() {
                self.say_failed();
                renew(&mut self.producer, &self.shared)?;
            }
            // Whatever refused them needs time.
            self.producer.poll(Duration::from_millis(100));
            if self.producer.in_flight_count() == 0 {
                take_back(&mut self.pending, take(&self.shared.undelivered));
                self.held = false;
            }
        }
        self.acknowledge();
        Ok(())
    }

    fn acknowledge(&mut self) {
        let Some(spool) = &mut self.spool else { return };
        let places = take(&self.shared.replayed);
        if !places.is_empty() {
            places.into_iter().for_each(|place| spool.acknowledge(place));
            self.shared.spooled(spool.octets());
            if spool.is_empty() {
                tracing::info!("all that was in the spool was sent");
            }
        }
    }

    /// Takes back what librdkafka has, and puts it into the spool.
    fn empty_client(&mut self) -> anyhow::Result<()> {
        if self.spool.is_none() {
            return Ok(());
        }
        if self.producer.in_flight_count() > 0 {
            // A new client: this one could not number its messages without a gap any more.
            renew(&mut self.producer, &self.shared)?;
        }
        take_back(&mut self.pending, take(&self.shared.undelivered));
        self.held = false;
        self.keep_pending();
        Ok(())
    }

    /// Puts what waits in memory back to where it came from, or before all that is in the spool.
    fn keep_pending(&mut self) {
        self.acknowledge();
        let Some(spool) = &mut self.spool else { return };
        let shared = &self.shared;
        if let Some(first) = self.pending.iter().filter_map(|outgoing| outgoing.ticket.place).min() {
            spool.rewind(first);
            self.pending.retain(|outgoing| {
                let stays = outgoing.ticket.place.is_none();
                if !stays {
                    shared.leave_memory(1, outgoing.message.payload.len() as u64);
                }
                stays
            });
        }
        if self.pending.is_empty() || Instant::now() < self.write_at {
            return;
        }
        match spool.prepend(self.pending.iter().map(|outgoing| &outgoing.message)) {
            Ok(()) => {
                let octets = self.pending.iter().map(|outgoing| outgoing.message.payload.len() as u64).sum();
                let messages = self.pending.len() as u64;
                shared.leave_memory(messages, octets);
                shared.metrics.spooled(messages, octets);
                shared.spool_fails.store(false, Ordering::Relaxed);
                self.pending.clear();
            }
            Err(error) => {
                shared.spool_failed(&error);
                self.write_at = Instant::now() + SYNC;
            }
        }
    }

    /// Says what stays behind.
    fn leave(&mut self) {
        let Some(spool) = &mut self.spool else { return };
        if let Err(error) = spool.sync() {
            self.shared.spool_failed(&error);
        }
        if spool.unread() > 0 {
            let (messages, octets) = (spool.unread(), spool.octets());
            tracing::warn!("{messages} messages ({octets} octets) stay in the spool: the next run sends them");
        }
    }

    fn say_failed(&self) {
        let reason = self.producer.client().fatal_error().map_or_else(String::new, |(_, reason)| reason);
        tracing::error!("Kafka's client failed ({reason}): it is set up anew");
    }
}

/// A new client, which sends what the old one had not delivered: that comes back by its answers. Readers drop what they
/// had already, by its sequence.
fn renew(producer: &mut BaseProducer<Answers>, shared: &Arc<KafkaShared>) -> anyhow::Result<()> {
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
        let message = |number| Outgoing {
            ticket: Ticket { number, place: None },
            message: TopicMessage { topic: Topic::Flows, partition: 0, payload: Vec::new() },
        };
        let mut pending: VecDeque<Outgoing> = [5, 6].map(message).into();
        take_back(&mut pending, [4, 1, 3].map(message).into());
        assert_eq!(pending, [1, 3, 4, 5, 6].map(message));
    }
}
