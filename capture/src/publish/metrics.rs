//! Metrics of a worker's publisher.

use super::Published;
use crate::metrics::{CounterBy, declare_metrics};

declare_metrics! {
    /// Records and messages published, by worker.
    pub struct PublishMetrics {
        late: CounterBy<1>, by ["worker"] => "packets_late", "Packets older than the open interval, counted in it";
        records: CounterBy<2>, by ["worker", "kind"] => "records", "Records published, by kind";
        batches: CounterBy<1>, by ["worker"] => "batches", "Batches published";
        closings: CounterBy<1>, by ["worker"] => "closing_records", "Closing records published";
    }
}

impl PublishMetrics {
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
