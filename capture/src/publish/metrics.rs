//! Metrics of a worker's publisher.

use super::Published;
use crate::metrics::{CounterBy, Metrics};

/// Records and messages published, by worker.
#[derive(Clone)]
pub struct PublishMetrics {
    late: CounterBy<1>,
    records: CounterBy<2>,
    batches: CounterBy<1>,
    closings: CounterBy<1>,
}

impl PublishMetrics {
    pub fn new(metrics: &Metrics) -> PublishMetrics {
        let worker = metrics.by(["worker"]);
        let kind = metrics.by(["worker", "kind"]);
        PublishMetrics {
            late: worker.register("packets_late", "Packets older than the open interval, counted in it"),
            records: kind.register("records", "Records published, by kind"),
            batches: worker.register("batches", "Batches published"),
            closings: worker.register("closing_records", "Closing records published"),
        }
    }

    /// Counts the output of an interval, and how many of its packets, or collected records, were late.
    pub fn published(&self, worker: u32, here: &Published, late: u64) {
        self.late.of([&worker]).inc_by(late);
        self.batches.of([&worker]).inc_by(here.batches);
        self.closings.of([&worker]).inc_by(here.closings);
        self.records.of([&worker, &"flow"]).inc_by(here.flow_records);
    }

    pub fn overflow(&self, worker: u32, records: u64) {
        self.records.of([&worker, &"overflow"]).inc_by(records);
    }
}
