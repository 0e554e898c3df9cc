//! Metrics of the capturing half of a line.

use crate::metrics::{CounterBy, GaugeBy, declare_metrics};
use crate::packet::Cause;
use crate::publish::Published;
use crate::publish::metered::Closing;
use crate::volume::Volume;
use prometheus_client::metrics::counter::Counter;

declare_metrics! {
    /// Packets captured, dropped and not metered, by worker.
    pub struct CaptureMetrics {
        offered: CounterBy<1>, by ["worker"]
            => "packets_offered", "Packets that the interface offered, dropped ones included";
        captured: CounterBy<1>, by ["worker"]
            => "packets_captured", "Packets taken from the source, in closed intervals";
        captured_octets: CounterBy<1>, by ["worker"] => "octets_captured", "Layer-3 octets of packets captured";
        dropped: CounterBy<2>, by ["worker", "cause"]
            => "packets_dropped", "Packets dropped before the agent, by cause";
        not_metered: CounterBy<2>, by ["worker", "cause"]
            => "packets_not_metered", "Packets captured that are in no record, by cause";
        flows: CounterBy<1>, by ["worker"] => "flows", "Flows that began";
        entries: GaugeBy<1>, by ["worker"] => "flow_table_entries", "Flows alive";
        capacity: GaugeBy<1>, by ["worker"]
            => "flow_table_capacity", "Flows that fit before the overflow ladder begins";
        skipped: CounterBy<1>, by ["worker"] => "intervals_skipped", "Empty intervals skipped because time jumped";
        unbalanced: CounterBy<1>, by ["worker"]
            => "intervals_unbalanced", "Intervals whose sums did not agree: more than 0 means a bug";
        source_errors: CounterBy<1>, by ["worker"]
            => "source_errors", "Failures of the source after which the agent tried again";
    }
}

declare_metrics! {
    /// Orders of an operator.
    pub struct ControlMetrics {
        followed: Counter => "orders_followed", "Orders that took effect";
        refused: CounterBy<1>, by ["cause"] => "orders_refused", "Orders refused, by cause";
    }
}

impl ControlMetrics {
    pub fn followed(&self) {
        self.followed.inc();
    }

    pub fn refused(&self, cause: &str) {
        self.refused.of([&cause]).inc();
    }
}

impl CaptureMetrics {
    /// Counts a closed interval, in which the kernel offered `offered` packets and dropped `dropped`.
    pub fn closed(&self, worker: u32, closing: &Closing, here: &Published, offered: u64, dropped: u64) {
        let tally = &closing.interval.tally;
        self.offered.of([&worker]).inc_by(offered);
        self.captured.of([&worker]).inc_by(tally.captured.packets);
        self.captured_octets.of([&worker]).inc_by(tally.captured.octets);
        self.flows.of([&worker]).inc_by(tally.flows);
        self.skipped.of([&worker]).inc_by(closing.interval.skipped);
        self.unbalanced.of([&worker]).inc_by(here.unbalanced);
        self.dropped.of([&worker, &"kernel"]).inc_by(dropped);
        for cause in Cause::ALL {
            let Volume { packets, .. } = tally.not_metered[cause as usize];
            self.not_metered.of([&worker, &cause.name()]).inc_by(packets);
        }
        self.entries.of([&worker]).set(closing.load.flow_table_entries as i64);
        self.capacity.of([&worker]).set(closing.load.flow_table_capacity as i64);
    }

    pub fn source_error(&self, worker: u32) {
        self.source_errors.of([&worker]).inc();
    }
}
