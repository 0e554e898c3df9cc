//! What the client of Kafka and its spool count.

use crate::metrics::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    cause: String,
}

/// Messages delivered, waiting, spooled and given up.
#[derive(Clone)]
pub struct KafkaMetrics {
    delivered: Counter,
    delivered_octets: Counter,
    queue: Gauge,
    shed: Family<Reason, Counter>,
    shed_octets: Family<Reason, Counter>,
    spooled: Counter,
    spooled_octets: Counter,
    replayed: Counter,
    replayed_octets: Counter,
    spool_errors: Counter,
    spool: Gauge,
    errors: Family<Reason, Counter>,
}

impl KafkaMetrics {
    pub fn new(metrics: &Metrics) -> KafkaMetrics {
        KafkaMetrics {
            delivered: metrics.register("messages_delivered", "Messages that Kafka acknowledged"),
            delivered_octets: metrics.register("messages_delivered_octets", "Octets of those, before compression"),
            queue: metrics.register("queue_octets", "Octets of messages that wait for Kafka's acknowledgement"),
            shed: metrics.register("messages_shed", "Messages given up, by cause"),
            shed_octets: metrics.register("messages_shed_octets", "Octets of those"),
            spooled: metrics.register("messages_spooled", "Messages that went to the spool"),
            spooled_octets: metrics.register("messages_spooled_octets", "Octets of those"),
            replayed: metrics.register("messages_replayed", "Messages of the spool that Kafka acknowledged"),
            replayed_octets: metrics.register("messages_replayed_octets", "Octets of those"),
            spool_errors: metrics.register("spool_errors", "Times that the spool could not be used"),
            spool: metrics.register("spool_octets", "Octets of the spool on disk"),
            errors: metrics.register("kafka_errors", "Errors that the Kafka client reported, by code"),
        }
    }

    pub fn delivered(&self, octets: u64) {
        self.delivered.inc();
        self.delivered_octets.inc_by(octets);
    }

    pub fn queue(&self, octets: u64) {
        self.queue.set(octets as i64);
    }

    pub fn shed(&self, cause: &str, messages: u64, octets: u64) {
        let by = Reason { cause: cause.to_owned() };
        self.shed.get_or_create(&by).inc_by(messages);
        self.shed_octets.get_or_create(&by).inc_by(octets);
    }

    pub fn spooled(&self, messages: u64, octets: u64) {
        self.spooled.inc_by(messages);
        self.spooled_octets.inc_by(octets);
    }

    pub fn replayed(&self, octets: u64) {
        self.replayed.inc();
        self.replayed_octets.inc_by(octets);
    }

    /// Sets the size of the spool.
    pub fn spool(&self, octets: u64) {
        self.spool.set(octets as i64);
    }

    pub fn spool_error(&self) {
        self.spool_errors.inc();
    }

    pub fn error(&self, code: &str) {
        self.errors.get_or_create(&Reason { cause: code.to_owned() }).inc();
    }
}
