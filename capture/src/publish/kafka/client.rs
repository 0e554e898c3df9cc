//! The Kafka client: what sending requires of it, its set-up, its answers, and the check for brokers and topics.

use super::credentials::{Credentials, CredentialsFile};
use super::options::KafkaOptions;
use super::shared::{KafkaShared, Outgoing, RETRY, Refused, Ticket};
use crate::packet::protocol::TCP;
use crate::publish::topic::{Topic, TopicMessage};
use anyhow::{Context as _, anyhow};
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext, PurgeConfig};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long [`reach`] waits for Kafka.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a failed client may take to return its messages.
const GIVE_BACK: Duration = Duration::from_secs(5);

/// The operations of Kafka's client that the sending thread needs. Its answers come through [`KafkaShared`].
pub(super) trait Client {
    /// Takes a message.
    ///
    /// # Errors
    /// If it cannot take it now.
    fn send(&mut self, outgoing: &Outgoing) -> Result<(), KafkaError>;

    /// Passes on the answers that arrive within `patience`.
    fn poll(&mut self, patience: Duration);

    /// Messages without an answer.
    fn in_flight(&self) -> i32;

    /// Why it cannot send any more, if so.
    fn fatal_error(&self) -> Option<String>;

    /// Replaces the client. The old one returns what it had not delivered, and the new one sends it again; readers drop
    /// repeats by their sequence.
    ///
    /// # Errors
    /// If a new one cannot be set up.
    fn renew(&mut self) -> anyhow::Result<()>;

    fn look_for_topics(&mut self) -> Look;

    /// Whether the credentials have changed since the last call, so that a new client would log in with others.
    fn has_new_credentials(&mut self) -> bool {
        false
    }

    /// Refreshes the brokers' addresses in a thread of its own, since resolving names may take long.
    ///
    /// # Errors
    /// If the thread cannot be started.
    fn look_for_brokers(&mut self) -> std::io::Result<JoinHandle<()>>;

    /// The time, by the clock that waiting is measured with.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Waits for a moment.
    fn wait(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// librdkafka.
pub(super) struct KafkaClient {
    producer: BaseProducer<Answers>,
    credentials: Option<CredentialsFile>,
    shared: Arc<KafkaShared>,
}

impl KafkaClient {
    /// Sets up a client.
    ///
    /// # Errors
    /// If a property is wrong.
    pub(super) fn new(shared: &Arc<KafkaShared>) -> anyhow::Result<KafkaClient> {
        let credentials = shared.options.credentials.clone().map(CredentialsFile::new);
        Ok(KafkaClient { producer: producer(shared)?, credentials, shared: Arc::clone(shared) })
    }
}

/// Handles librdkafka's answers: deliveries, errors, log lines.
pub(super) struct Answers(Arc<KafkaShared>);

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
                self.0.delivered(*ticket, octets);
            }
            Err((error, message)) => {
                let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
                let asked_back = matches!(code, RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight);
                if !asked_back {
                    self.0.metrics.error(&format!("{code:?}"));
                }
                if !asked_back && self.0.throttle.allow(&format!("delivery {code:?}")) {
                    tracing::warn!("Kafka did not accept a message for {} ({error}): trying again", message.topic());
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
                let sent_to = |topic: &Topic| self.0.topics[*topic as usize] == message.topic();
                let topic = Topic::ALL.into_iter().find(sent_to).unwrap_or(Topic::Flows);
                let payload = message.payload().unwrap_or(&[]).to_vec();
                let message = TopicMessage { topic, partition: message.partition(), payload };
                self.0.returned(Outgoing { ticket: *ticket, message }, code);
            }
        }
    }
}

/// Properties of librdkafka that `[kafka] properties` may override.
const DEFAULTS: [(&str, &str); 9] = [
    ("compression.type", "zstd"),
    ("compression.level", "1"),
    ("linger.ms", "50"),
    ("batch.size", "1000000"),
    ("message.max.bytes", "4000000"),
    ("queue.buffering.max.messages", "10000000"),
    ("queue.buffering.max.kbytes", "2147483647"),
    ("topic.metadata.refresh.interval.ms", "60000"),
    ("reconnect.backoff.max.ms", "2000"),
];

/// Properties of a client: these defaults, those of the credentials, those of the configuration.
fn properties(
    options: &KafkaOptions,
    defaults: &'static [(&'static str, &'static str)],
) -> anyhow::Result<ClientConfig> {
    let credentials = options.credentials.as_deref().map(Credentials::read).transpose()?;
    let mut config = ClientConfig::new();
    config.set("client.id", format!("weir-probe-{}", options.probe));
    for (key, value) in defaults.iter().copied().chain(credentials.iter().flat_map(Credentials::properties)) {
        config.set(key, value);
    }
    for (key, value) in &options.properties {
        config.set(key, value);
    }
    config.set("bootstrap.servers", credentials.as_ref().map_or(&options.brokers, |found| &found.brokers));
    Ok(config)
}

/// Properties of the client that reads orders.
const OF_CONSUMER: [(&str, &str); 3] =
    [("reconnect.backoff.max.ms", "2000"), ("queued.max.messages.kbytes", "1024"), ("fetch.wait.max.ms", "1000")];

/// A client that reads, and keeps its place itself.
///
/// # Errors
/// If a property is wrong.
pub(super) fn consumer(options: &KafkaOptions) -> anyhow::Result<BaseConsumer> {
    properties(options, &OF_CONSUMER)?
        .set("group.id", format!("weir-probe-{}", options.probe))
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "earliest")
        .set("allow.auto.create.topics", "false")
        .create()
        .context("the Kafka client that reads orders cannot be set up: see [kafka] properties")
}

fn producer(shared: &Arc<KafkaShared>) -> anyhow::Result<BaseProducer<Answers>> {
    // Delivery guarantees rest on these, so no property overrides them.
    properties(&shared.options, &DEFAULTS)?
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("message.timeout.ms", "0")
        .create_with_context(Answers(Arc::clone(shared)))
        .context("the Kafka client cannot be set up: see [kafka] properties")
}

/// What credentials reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// The topics of the probe.
    Topics,
    /// Kafka, but none of those topics.
    NoTopics,
}

/// Logs in once, and looks for the topics of a probe.
///
/// # Errors
/// If Kafka does not answer, is not the one whose authority is in the credentials, or refuses them.
pub fn reach(credentials: &Credentials, probe: &str) -> anyhow::Result<Reached> {
    let mut config = ClientConfig::new();
    for (key, value) in credentials.properties() {
        config.set(key, value);
    }
    let failure = Arc::new(Mutex::new(None));
    let client: BaseProducer<LatestError> = config
        .set("bootstrap.servers", &credentials.brokers)
        .create_with_context(LatestError(Arc::clone(&failure)))
        .context("these credentials cannot be used")?;
    let deadline = Instant::now() + PATIENCE;
    let metadata = loop {
        let found = client.client().fetch_metadata(None, Duration::from_millis(500));
        client.poll(Duration::ZERO);
        let cause = failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match (found, cause) {
            (Ok(metadata), _) => break metadata,
            // Waiting changes nothing about a refusal.
            (Err(_), Some((RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SSL, reason))) => Err(anyhow!(reason)),
            (Err(error), cause) if Instant::now() > deadline => {
                Err(anyhow!(cause.map_or_else(|| error.to_string(), |(_, reason)| reason)))
            }
            _ => continue,
        }
        .with_context(|| format!("cannot log in to Kafka at {}", credentials.brokers))?;
    };
    let topic = format!("weir.flows.{probe}");
    let is_there = metadata.topics().iter().any(|one| one.name() == topic);
    Ok(if is_there { Reached::Topics } else { Reached::NoTopics })
}

/// Keeps the latest error that the client reports.
struct LatestError(Arc<Mutex<Option<(RDKafkaErrorCode, String)>>>);

impl ClientContext for LatestError {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
        // A refusal says more than that no broker is left.
        if code != RDKafkaErrorCode::AllBrokersDown {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((code, reason.to_owned()));
        }
    }
}

impl ProducerContext for LatestError {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

pub(super) enum Look {
    Found,
    Missing(String),
    Away(String),
}

impl Client for KafkaClient {
    fn send(&mut self, outgoing: &Outgoing) -> Result<(), KafkaError> {
        let name = &self.shared.topics[outgoing.message.topic as usize];
        let record = BaseRecord::<(), [u8], Box<Ticket>>::with_opaque_to(name, Box::new(outgoing.ticket))
            .partition(outgoing.message.partition)
            .payload(&outgoing.message.payload);
        self.producer.send(record).map_err(|(error, _)| error)
    }

    fn poll(&mut self, patience: Duration) {
        self.producer.poll(patience);
    }

    fn in_flight(&self) -> i32 {
        self.producer.in_flight_count()
    }

    fn fatal_error(&self) -> Option<String> {
        self.producer.client().fatal_error().map(|(_, reason)| reason)
    }

    fn renew(&mut self) -> anyhow::Result<()> {
        self.producer.purge(PurgeConfig::default().queue().inflight());
        let deadline = Instant::now() + GIVE_BACK;
        while self.producer.in_flight_count() > 0 && Instant::now() < deadline {
            self.producer.poll(Duration::from_millis(10));
        }
        self.producer = producer(&self.shared)?;
        Ok(())
    }

    fn has_new_credentials(&mut self) -> bool {
        self.credentials.as_mut().is_some_and(CredentialsFile::has_changed)
    }

    fn look_for_topics(&mut self) -> Look {
        look_for_topics(&self.producer, &self.shared)
    }

    fn look_for_brokers(&mut self) -> std::io::Result<JoinHandle<()>> {
        // Asks for one existing topic, because the answer for all topics of a fleet is long.
        let topic = Some(self.shared.topics[0].as_str());
        let found = self.producer.client().fetch_metadata(topic, RETRY).ok();
        let found: Vec<(String, u16)> = found
            .iter()
            .flat_map(|metadata| metadata.brokers())
            .filter_map(|broker| Some((broker.host().to_owned(), u16::try_from(broker.port()).ok()?)))
            .collect();
        let (brokers, configured) = (self.shared.brokers.clone(), self.shared.options.brokers.clone());
        std::thread::Builder::new().name("brokers".to_owned()).spawn(move || {
            brokers.add_all(&configured);
            found.iter().for_each(|(host, port)| brokers.add((host.as_str(), *port), TCP));
        })
    }
}

/// Looks for the probe's topics among all of them: a broker may create a topic that a client asks for by name.
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
    for (topic, name) in Topic::ALL.into_iter().zip(&shared.topics) {
        let found = metadata.topics().iter().find(|topic| topic.name() == name);
        if topic == Topic::Alerts {
            shared.takes_alerts.store(found.is_some(), Ordering::Release);
            continue;
        }
        let Some(topic) = found else {
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
