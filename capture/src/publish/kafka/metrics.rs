//! Metrics of the Kafka client and its spool.

use crate::metrics::{CounterBy, Metrics};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

/// Messages delivered, waiting, spooled and given up.
#[derive(Clone)]
pub struct KafkaMetrics {
    delivered: Counter,
    delivered_octets: Counter,
    queue: Gauge,
    shed: CounterBy<1>,
    shed_octets: CounterBy<1>,
    spooled: Counter,
    spooled_octets: Counter,
    replayed: Counter,
    replayed_octets: Counter,
    spool_errors: Counter,
    spool: Gauge,
    errors: CounterBy<1>,
}

impl KafkaMetrics {
    pub fn new(metrics: &Metrics) -> KafkaMetrics {
        let cause = metrics.by(["cause"]);
        KafkaMetrics {
            delivered: metrics.register("messages_delivered", "Messages that Kafka acknowledged"),
            delivered_octets: metrics.register("messages_delivered_octets", "Octets of those, before compression"),
            queue: metrics.register("queue_octets", "Octets of messages that wait for Kafka's acknowledgement"),
            shed: cause.register("messages_shed", "Messages given up, by cause"),
            shed_octets: cause.register("messages_shed_octets", "Octets of those"),
            spooled: metrics.register("messages_spooled", "Messages that went to the spool"),
            spooled_octets: metrics.register("messages_spooled_octets", "Octets of those"),
            replayed: metrics.register("messages_replayed", "Messages of the spool that Kafka acknowledged"),
            replayed_octets: metrics.register("messages_replayed_octets", "Octets of those"),
            spool_errors: metrics.register("spool_errors", "Times that the spool could not be used"),
            spool: metrics.register("spool_octets", "Octets of the spool on disk"),
            errors: cause.register("kafka_errors", "Errors that the Kafka client reported, by code"),
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
        self.shed.of([&cause]).inc_by(messages);
        self.shed_octets.of([&cause]).inc_by(octets);
    }

    pub fn spooled(&self, messages: u64, octets: u64) {
        self.spooled.inc_by(messages);
        self.spooled_octets.inc_by(octets);
    }

    pub fn replayed(&self, octets: u64) {
        self.replayed.inc();
        self.replayed_octets.inc_by(octets);
    }

    pub fn spool(&self, octets: u64) {
        self.spool.set(octets as i64);
    }

    pub fn spool_error(&self) {
        self.spool_errors.inc();
    }

    pub fn error(&self, code: &str) {
        self.errors.of([&code]).inc();
    }
}
