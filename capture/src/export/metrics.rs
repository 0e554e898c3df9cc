//! What exports count.

use crate::metrics::{CounterBy, GaugeBy, Metrics};

/// Records sent and given up, by export.
#[derive(Clone)]
pub struct ExportMetrics {
    records: CounterBy<1>,
    messages: CounterBy<1>,
    octets: CounterBy<1>,
    errors: CounterBy<1>,
    shed: CounterBy<2>,
    queue: GaugeBy<1>,
}

impl ExportMetrics {
    pub fn new(metrics: &Metrics) -> ExportMetrics {
        let export = metrics.by(["export"]);
        let cause = metrics.by(["export", "cause"]);
        ExportMetrics {
            records: export.register("export_records", "Records sent, by export, as its form counts them"),
            messages: export.register("export_messages", "Messages that they went in"),
            octets: export.register("export_octets", "Octets of those"),
            errors: export.register("export_errors", "Times that an export could not connect or send"),
            shed: cause.register("export_records_shed", "Records that an export gave up, by cause"),
            queue: export.register("export_queue_octets", "Octets that wait for an export"),
        }
    }

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
