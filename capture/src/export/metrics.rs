//! What exports count.

use crate::metrics::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ExportName {
    export: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ExportCause {
    export: String,
    cause: &'static str,
}

/// Records sent and given up, by export.
#[derive(Clone)]
pub struct ExportMetrics {
    records: Family<ExportName, Counter>,
    messages: Family<ExportName, Counter>,
    octets: Family<ExportName, Counter>,
    errors: Family<ExportName, Counter>,
    shed: Family<ExportCause, Counter>,
    queue: Family<ExportName, Gauge>,
}

impl ExportMetrics {
    pub fn new(metrics: &Metrics) -> ExportMetrics {
        ExportMetrics {
            records: metrics.register("export_records", "Records sent, by export, as its form counts them"),
            messages: metrics.register("export_messages", "Messages that they went in"),
            octets: metrics.register("export_octets", "Octets of those"),
            errors: metrics.register("export_errors", "Times that an export could not connect or send"),
            shed: metrics.register("export_records_shed", "Records that an export gave up, by cause"),
            queue: metrics.register("export_queue_octets", "Octets that wait for an export"),
        }
    }

    pub fn sent(&self, export: &str, messages: u64, records: u64, octets: u64) {
        let by = ExportName { export: export.to_owned() };
        self.records.get_or_create(&by).inc_by(records);
        self.messages.get_or_create(&by).inc_by(messages);
        self.octets.get_or_create(&by).inc_by(octets);
    }

    pub fn shed(&self, export: &str, cause: &'static str, records: u64) {
        self.shed.get_or_create(&ExportCause { export: export.to_owned(), cause }).inc_by(records);
    }

    pub fn error(&self, export: &str) {
        self.errors.get_or_create(&ExportName { export: export.to_owned() }).inc();
    }

    pub fn queue(&self, export: &str, octets: u64) {
        self.queue.get_or_create(&ExportName { export: export.to_owned() }).set(octets as i64);
    }
}
