//! State shared by the workers, the sending thread and librdkafka's callbacks.

use super::metrics::KafkaMetrics;
use super::options::KafkaOptions;
use crate::own_traffic::OwnTraffic;
use crate::publish::spool::{Amount, SpoolPlace};
use crate::publish::topic::{Topic, TopicMessage};
use crate::signals::Asked;
use crate::throttle::Throttle;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often to look for a missing broker or topic.
pub(super) const RETRY: Duration = Duration::from_secs(2);

/// Context that librdkafka returns with its answer for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    /// Its position in the order of all messages.
    pub(super) number: u64,
    /// Its position in the spool, if it came from there.
    pub(super) place: Option<SpoolPlace>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub(super) ticket: Ticket,
    pub(super) message: TopicMessage,
}

/// Kafka does not let this client write: a replay ends, a live capture keeps trying.
#[derive(Clone, Debug, thiserror::Error)]
#[error("Kafka refuses this client for {topic} ({error}): run `weir probe add {probe}`, and see [kafka] properties")]
pub struct Refused {
    pub(super) topic: String,
    pub(super) error: KafkaError,
    pub(super) probe: String,
}

pub(super) struct KafkaShared {
    pub(super) options: KafkaOptions,
    pub(super) topics: [String; Topic::ALL.len()],
    /// Octets that wait or are in flight.
    pub(super) queued: AtomicU64,
    /// The octets among them that are not also in the spool.
    pub(super) unsaved: AtomicU64,
    /// Number of those messages.
    pub(super) outstanding: AtomicU64,
    pub(super) undelivered: Mutex<Vec<Outgoing>>,
    /// Positions in the spool of acknowledged messages.
    pub(super) replayed: Mutex<Vec<SpoolPlace>>,
    pub(super) delivered: AtomicU64,
    /// Octets in the spool, and whether it cannot be written.
    pub(super) spooled: AtomicU64,
    pub(super) spool_fails: AtomicBool,
    pub(super) metrics: KafkaMetrics,
    pub(super) throttle: Throttle,
    /// Set when no message may wait any longer.
    pub(super) give_up: Arc<AtomicBool>,
    /// The reason why Kafka will never accept a message, if it gave one.
    pub(super) refused: Mutex<Option<Refused>>,
    /// Whether the topics exist; librdkafka gets no messages before they do.
    pub(super) ready: AtomicBool,
    /// Whether there is a topic for alerts, which no stack of version 0.1.0 has.
    pub(super) takes_alerts: AtomicBool,
    pub(super) brokers: OwnTraffic,
}

impl KafkaShared {
    pub(super) fn new(options: KafkaOptions, metrics: KafkaMetrics, asked: &Asked) -> KafkaShared {
        let topics = Topic::ALL.map(|topic| topic.of(&options.probe));
        let shared = KafkaShared {
            topics,
            queued: AtomicU64::new(0),
            unsaved: AtomicU64::new(0),
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
            takes_alerts: AtomicBool::new(false),
            brokers: OwnTraffic::default(),
            options,
        };
        shared.brokers.add_all(&shared.options.brokers);
        shared
    }

    pub(super) fn say_away(&self, text: &str) {
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

    pub(super) fn spooled(&self, octets: u64) {
        self.spooled.store(octets, Ordering::Relaxed);
        self.metrics.spool(octets);
    }

    /// Kafka has a message of this many octets.
    pub(super) fn delivered(&self, ticket: Ticket, octets: u64) {
        self.leave_memory(1, octets);
        self.metrics.delivered(octets);
        self.delivered.fetch_add(1, Ordering::Relaxed);
        match ticket.place {
            Some(place) => {
                self.metrics.replayed(octets);
                self.replayed.lock().unwrap_or_else(PoisonError::into_inner).push(place);
            }
            None => self.saved(octets),
        }
    }

    /// Kafka does not have a message, for this reason.
    pub(super) fn returned(&self, outgoing: Outgoing, code: RDKafkaErrorCode) {
        if matches!(
            code,
            RDKafkaErrorCode::UnknownTopicOrPartition
                | RDKafkaErrorCode::UnknownTopic
                | RDKafkaErrorCode::UnknownPartition
        ) {
            self.ready.store(false, Ordering::Release);
        }
        self.undelivered.lock().unwrap_or_else(PoisonError::into_inner).push(outgoing);
    }

    /// Counts octets that Kafka or the spool has now.
    pub(super) fn saved(&self, octets: u64) {
        self.unsaved.fetch_sub(octets, Ordering::AcqRel);
    }

    /// Counts messages that are no longer in memory.
    pub(super) fn leave_memory(&self, messages: u64, octets: u64) {
        self.queued.fetch_sub(octets, Ordering::AcqRel);
        self.outstanding.fetch_sub(messages, Ordering::AcqRel);
    }

    /// Counts messages that the spool dropped.
    pub(super) fn shed(&self, cause: &'static str, Amount { messages, octets }: Amount) {
        if messages == 0 {
            return;
        }
        self.metrics.shed(cause, messages, octets);
        if self.throttle.allow(cause) {
            tracing::error!(
                "the spool dropped {messages} messages ({cause}; weir_probe_messages_shed_total counts them, gaps in \
                 their sequence show which)"
            );
        }
    }

    pub(super) fn spool_failed(&self, error: &std::io::Error) {
        self.spool_fails.store(true, Ordering::Relaxed);
        self.metrics.spool_error();
        if self.throttle.allow(&format!("spool {:?}", error.kind())) {
            tracing::error!("cannot write to the spool ({error}): messages wait in memory until it is full");
        }
    }
}
