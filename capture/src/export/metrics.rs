//! Metrics of exports.

use crate::metrics::{CounterBy, GaugeBy, declare_metrics};

declare_metrics! {
    /// Records sent and dropped, by export.
    pub struct ExportMetrics {
        records: CounterBy<1>, by ["export"] => "export_records", "Records sent, as the export's format counts them";
        messages: CounterBy<1>, by ["export"] => "export_messages", "Messages that an export sent";
        octets: CounterBy<1>, by ["export"] => "export_octets", "Octets of the messages that an export sent";
        errors: CounterBy<1>, by ["export"] => "export_errors", "Failed attempts of an export to connect or send";
        shed: CounterBy<2>, by ["export", "cause"] => "export_records_shed", "Records that an export dropped, by cause";
        queue: GaugeBy<1>, by ["export"] => "export_queue_octets", "Octets that wait for an export";
    }
}

impl ExportMetrics {
    pub fn sent(&self, export: &str, messages: u64, records: u64, octets: u64) {
        self.records.of([&export]).inc_by(records);
        self.messages.of([&export]).inc_by(messages);
        self.octets.of([&export]).inc_by(octets);
    }

    pub fn shed(&self, export: &str, cause: &'static str, records: u64) {
        self.shed.of([&export, &cause]).inc_by(records);
    }

    pub fn error(&self, export: &str) {
        self.errors.of([&export]).inc();
    }

    pub fn queue(&self, export: &str, octets: u64) {
        self.queue.of([&export]).set(octets as i64);
    }
}
