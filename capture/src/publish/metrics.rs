//! What a worker's publisher counts.

use super::Published;
use crate::metrics::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Publishing {
    worker: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PublishedKind {
    worker: u32,
    kind: &'static str,
}

/// Records and messages published, by worker.
#[derive(Clone)]
pub struct PublishMetrics {
    late: Family<Publishing, Counter>,
    records: Family<PublishedKind, Counter>,
    batches: Family<Publishing, Counter>,
    closings: Family<Publishing, Counter>,
}

impl PublishMetrics {
    pub fn new(metrics: &Metrics) -> PublishMetrics {
        PublishMetrics {
            late: metrics.register("packets_late", "Packets older than the open interval, counted in it"),
            records: metrics.register("records", "Records published, by kind"),
            batches: metrics.register("batches", "Batches published"),
            closings: metrics.register("closing_records", "Closing records published"),
        }
    }

    /// Counts what was published of an interval, and how many of its packets, or records collected, were late.
    pub fn published(&self, worker: u32, here: &Published, late: u64) {
        let by = Publishing { worker };
        self.late.get_or_create(&by).inc_by(late);
        self.batches.get_or_create(&by).inc_by(here.batches);
        self.closings.get_or_create(&by).inc_by(here.closings);
        self.records.get_or_create(&PublishedKind { worker, kind: "flow" }).inc_by(here.flow_records);
    }

    pub fn overflow(&self, worker: u32, records: u64) {
        self.records.get_or_create(&PublishedKind { worker, kind: "overflow" }).inc_by(records);
    }
}
