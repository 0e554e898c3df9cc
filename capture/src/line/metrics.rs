//! What the capturing half of a line counts.

use crate::metrics::Metrics;
use crate::packet::Cause;
use crate::publish::Published;
use crate::publish::metered::Closing;
use crate::volume::Volume;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Capturing {
    worker: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CaptureCause {
    worker: u32,
    cause: &'static str,
}

type PerWorker = Family<Capturing, Counter>;

/// Packets captured, dropped and not metered, by worker.
#[derive(Clone)]
pub struct CaptureMetrics {
    offered: PerWorker,
    captured: PerWorker,
    captured_octets: PerWorker,
    dropped: Family<CaptureCause, Counter>,
    not_metered: Family<CaptureCause, Counter>,
    flows: PerWorker,
    entries: Family<Capturing, Gauge>,
    capacity: Family<Capturing, Gauge>,
    skipped: PerWorker,
    unbalanced: PerWorker,
    source_errors: PerWorker,
}

impl CaptureMetrics {
    pub fn new(metrics: &Metrics) -> CaptureMetrics {
        CaptureMetrics {
            offered: metrics.register("packets_offered", "Packets that the interface offered, dropped ones included"),
            captured: metrics.register("packets_captured", "Packets taken from the source, in closed intervals"),
            captured_octets: metrics.register("octets_captured", "Layer-3 octets of packets captured"),
            dropped: metrics.register("packets_dropped", "Packets dropped before the agent, by cause"),
            not_metered: metrics.register("packets_not_metered", "Packets captured that are in no record, by cause"),
            flows: metrics.register("flows", "Flows that began"),
            entries: metrics.register("flow_table_entries", "Flows alive"),
            capacity: metrics.register("flow_table_capacity", "Flows that fit before the overflow ladder begins"),
            skipped: metrics.register("intervals_skipped", "Empty intervals passed over because time jumped"),
            unbalanced: metrics
                .register("intervals_unbalanced", "Intervals whose sums did not agree: not 0 means a bug"),
            source_errors: metrics.register("source_errors", "Times that the source failed and was tried again"),
        }
    }

    /// Counts a closed interval; `dropped` is what the kernel dropped in it, `offered` what it offered.
    pub fn closed(&self, worker: u32, closing: &Closing, here: &Published, offered: u64, dropped: u64) {
        let by = Capturing { worker };
        let tally = &closing.interval.tally;
        let add = |family: &PerWorker, count: u64| {
            family.get_or_create(&by).inc_by(count);
        };
        add(&self.offered, offered);
        add(&self.captured, tally.captured.packets);
        add(&self.captured_octets, tally.captured.octets);
        add(&self.flows, tally.flows);
        add(&self.skipped, closing.interval.skipped);
        add(&self.unbalanced, here.unbalanced);
        self.dropped.get_or_create(&CaptureCause { worker, cause: "kernel" }).inc_by(dropped);
        for cause in Cause::ALL {
            let Volume { packets, .. } = tally.not_metered[cause as usize];
            self.not_metered.get_or_create(&CaptureCause { worker, cause: cause.name() }).inc_by(packets);
        }
        self.entries.get_or_create(&by).set(closing.load.flow_table_entries as i64);
        self.capacity.get_or_create(&by).set(closing.load.flow_table_capacity as i64);
    }

    /// Counts a failure of the source.
    pub fn source_error(&self, worker: u32) {
        self.source_errors.get_or_create(&Capturing { worker }).inc();
    }
}
