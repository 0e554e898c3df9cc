//! Sends records as nProbe's JSON to a Kafka topic, one message each.

use super::elements::{ExportTemplate, View};

use super::nprobe_json::JsonForm;
use super::target::{Account, ExportTarget};
use crate::proto;
use crate::proto::flow_message::Body;
use anyhow::{Context as _, bail};
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long to wait for room in librdkafka's queue before dropping a record.
const PATIENCE: Duration = Duration::from_secs(5);

/// A Kafka topic, and the form of the records for it.
#[warn(missing_docs)]
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ToKafka {
    /// `host:port`, several separated by commas.
    pub brokers: String,
    /// Name of the topic.
    pub topic: String,
    /// Properties of librdkafka.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// Template; empty: `@NTOPNG@`.
    #[serde(default)]
    pub template: String,
    /// Use names as JSON keys, not numbers.
    #[serde(default)]
    pub json_labels: bool,
}

/// Adds properties of librdkafka, each of the form `key=value`.
///
/// # Errors
/// If one has another form.
pub fn add(properties: &mut BTreeMap<String, String>, more: &[String]) -> anyhow::Result<()> {
    for property in more {
        let pair = property.split_once('=');
        let (key, value) = pair.with_context(|| format!("--kafka-conf {property:?} is not of the form key=value"))?;
        properties.insert(key.to_owned(), value.to_owned());
    }
    Ok(())
}

/// Parses `--kafka` in either of nProbe's spellings: brokers, topic, and the librdkafka properties that follow.
///
/// # Errors
/// If the topic is missing, or nProbe has no such part.
pub fn parse(text: &str) -> anyhow::Result<(String, String, BTreeMap<String, String>)> {
    let parts: Vec<&str> = text.split(';').map(str::trim).collect();
    let [brokers, topic, rest @ ..] = &parts[..] else {
        bail!("{text:?} is not \"brokers;topic\", such as \"127.0.0.1:9092;flows\"");
    };
    if brokers.is_empty() || topic.is_empty() || rest.len() > 3 {
        bail!("{text:?} is not \"brokers;topic[;acks;compression]\", such as \"127.0.0.1:9092;flows;1;snappy\"");
    }
    let is_acks = |text: &str| matches!(text, "-1" | "0" | "1" | "all");
    // One spelling has a topic for options before the acknowledgements; the agent sends no options.
    let rest = match rest {
        [first, rest @ ..] if rest.len() == 2 || !first.is_empty() && !is_acks(first) => rest,
        _ => rest,
    };
    let mut properties = BTreeMap::new();
    for (key, value) in ["acks", "compression.type"].into_iter().zip(rest).filter(|(_, value)| !value.is_empty()) {
        let known = match key {
            "acks" => is_acks(value),
            _ => matches!(*value, "none" | "gzip" | "snappy" | "lz4" | "zstd"),
        };
        if !known {
            bail!("{value:?} in {text:?} is not a valid {key}");
        }
        properties.insert(key.to_owned(), (*value).to_owned());
    }
    Ok(((*brokers).to_owned(), (*topic).to_owned(), properties))
}

/// Kafka's answers since the last call.
#[derive(Default)]
struct TopicAnswers {
    delivered: AtomicU64,
    octets: AtomicU64,
    failed: AtomicU64,
}

#[derive(Clone)]
struct TopicContext(Arc<TopicAnswers>);

impl ClientContext for TopicContext {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(facility, "{message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!("export to Kafka: {error}: {reason}");
    }
}

impl ProducerContext for TopicContext {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            Ok(message) => {
                self.0.delivered.fetch_add(1, Ordering::Relaxed);
                self.0.octets.fetch_add(message.payload_len() as u64, Ordering::Relaxed);
            }
            Err(_) => {
                self.0.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

pub struct ToTopic {
    form: JsonForm,
    brokers: String,
    topic: String,
    producer: BaseProducer<TopicContext>,
    answers: Arc<TopicAnswers>,
    connected: bool,
    json: Vec<u8>,
}

impl ToTopic {
    pub fn new(
        brokers: &str,
        topic: &str,
        properties: &BTreeMap<String, String>,
        template: ExportTemplate,
        labels: bool,
    ) -> anyhow::Result<ToTopic> {
        if brokers.is_empty() || topic.is_empty() {
            bail!("brokers and topic must not be empty");
        }
        let answers = Arc::new(TopicAnswers::default());
        let mut config = ClientConfig::new();
        config.set("client.id", "weir-probe-export").set("linger.ms", "50").set("compression.type", "snappy");
        for (key, value) in properties {
            config.set(key, value);
        }
        config.set("bootstrap.servers", brokers);
        let producer = config.create_with_context(TopicContext(Arc::clone(&answers)));
        let producer = producer.context("the Kafka client cannot be set up: see properties")?;
        let form = JsonForm::new(template, labels);
        let (brokers, topic) = (brokers.to_owned(), topic.to_owned());
        Ok(ToTopic { form, brokers, topic, producer, answers, connected: false, json: Vec::new() })
    }

    /// Adds Kafka's answers to the counts.
    fn account(&self, account: &Account) {
        self.producer.poll(Duration::ZERO);
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        let (delivered, octets) = (take(&self.answers.delivered), take(&self.answers.octets));
        if delivered > 0 {
            account.sent(delivered, delivered, octets as usize);
        }
        account.shed("not_delivered", take(&self.answers.failed));
    }
}

impl ExportTarget for ToTopic {
    fn connect(&mut self, wait: bool) -> anyhow::Result<()> {
        if wait {
            let metadata = self.producer.client().fetch_metadata(Some(&self.topic), PATIENCE);
            metadata.with_context(|| format!("cannot reach Kafka at {}", self.brokers))?;
        }
        self.connected = true;
        Ok(())
    }

    fn endpoints(&self) -> Vec<(String, u8)> {
        let with_port = |one: &str| if one.contains(':') { one.to_owned() } else { format!("{one}:9092") };
        self.brokers.split(',').map(|one| (with_port(one.trim()), 6)).collect()
    }

    fn is_connected(&self) -> bool {
        self.connected
    }

    fn send(&mut self, message: &proto::FlowMessage, account: &Account) {
        if let Some(Body::Batch(batch)) = &message.body {
            for flow in &batch.flows {
                self.json.clear();
                self.form.write(&View::both(flow, message.interval_start_ms), &mut self.json);
                let deadline = Instant::now() + PATIENCE;
                let mut record = BaseRecord::<(), [u8]>::to(&self.topic).payload(&self.json);
                while let Err((error, again)) = self.producer.send(record) {
                    if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) || Instant::now() > deadline {
                        account.failed(&anyhow::Error::from(error));
                        account.shed("not_sent", 1);
                        break;
                    }
                    self.producer.poll(Duration::from_millis(20));
                    record = again;
                }
            }
        }
        self.account(account);
    }

    fn flush(&mut self, account: &Account) {
        self.account(account);
    }

    fn finish(&mut self, account: &Account, give_up: &AtomicBool) {
        while self.producer.in_flight_count() > 0 && !give_up.load(Ordering::Relaxed) {
            self.producer.poll(Duration::from_millis(20));
        }
        account.shed("not_delivered", self.producer.in_flight_count().max(0) as u64);
        self.account(account);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_nprobe_are_read() {
        let of = |text: &str| {
            let (brokers, topic, properties) = parse(text).unwrap();
            format!("{brokers} {topic} {properties:?}")
        };
        assert_eq!(of("a:1,b:2;flows"), "a:1,b:2 flows {}");
        let both = "a:1 flows {\"acks\": \"1\", \"compression.type\": \"snappy\"}";
        assert_eq!(of("a:1;flows;1;snappy"), both);
        assert_eq!(of("a:1;flows;options;1;snappy"), both);
        assert_eq!(of("a:1;flows;options"), "a:1 flows {}");
        assert_eq!(of("a:1;flows;;;gzip"), "a:1 flows {\"compression.type\": \"gzip\"}");
        for wrong in ["a:1", "a:1;", ";flows", "a:1;flows;1;brotli", "a:1;flows;o;1;none;more"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
