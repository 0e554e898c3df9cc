//! Metrics of the Kafka client and its spool.

use crate::metrics::{CounterBy, declare_metrics};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

declare_metrics! {
    /// Messages delivered, waiting, spooled and dropped.
    pub struct KafkaMetrics {
        delivered: Counter => "messages_delivered", "Messages that Kafka acknowledged";
        delivered_octets: Counter => "messages_delivered_octets", "Octets of acknowledged messages, before compression";
        queue: Gauge => "queue_octets", "Octets of messages that wait for Kafka's acknowledgement";
        shed: CounterBy<1>, by ["cause"] => "messages_shed", "Messages dropped, by cause";
        shed_octets: CounterBy<1>, by ["cause"] => "messages_shed_octets", "Octets of messages dropped, by cause";
        spooled: Counter => "messages_spooled", "Messages written to the spool";
        spooled_octets: Counter => "messages_spooled_octets", "Octets of messages written to the spool";
        replayed: Counter => "messages_replayed", "Messages of the spool that Kafka acknowledged";
        replayed_octets: Counter => "messages_replayed_octets", "Octets of acknowledged messages of the spool";
        spool_errors: Counter => "spool_errors", "Failed operations on the spool";
        spool: Gauge => "spool_octets", "Octets of the spool on disk";
        errors: CounterBy<1>, by ["cause"] => "kafka_errors", "Errors that the Kafka client reported, by code";
    }
}

impl KafkaMetrics {
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
