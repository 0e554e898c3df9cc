//! The summary of a run, for people and for programs.

use crate::line::capture::Outcome;
use crate::packet::Cause;
use crate::volume::Volume;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The sums of all workers.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Sums of the workers.
    pub outcome: Outcome,
    /// Wall-clock time, s.
    pub seconds: f64,
    /// Epoch of the run, µs.
    pub epoch: u64,
    /// Shift of packet times, ms.
    pub time_shift_ms: i64,
}

impl Summary {
    /// Adds a worker's.
    pub fn add(&mut self, outcome: &Outcome) {
        self.outcome.tally += &outcome.tally;
        self.outcome.published += &outcome.published;
        self.outcome.witness.offered += outcome.witness.offered;
        self.outcome.witness.dropped += outcome.witness.dropped;
    }

    /// One JSON object: `packets` and `octets` with the terms of the conservation law, and how much was published.
    pub fn json(&self) -> Value {
        let Outcome { tally, published, witness, .. } = &self.outcome;
        let terms = |seen: u64, of: fn(Volume) -> u64| {
            let causes: Map<String, Value> =
                self.causes().map(|(name, volume)| (name.to_owned(), json!(of(volume)))).collect();
            json!({
                "seen": seen,
                "captured": of(tally.captured),
                "late": of(tally.late),
                "in_flow_records": of(published.flow),
                "in_overflow_records": of(published.overflow),
                "not_metered": causes,
            })
        };
        json!({
            "packets": terms(witness.offered, |volume| volume.packets),
            "octets": terms(tally.captured.octets, |volume| volume.octets),
            "datagrams": tally.datagrams,
            "layer4_octets": tally.layer4_octets,
            "flows": tally.flows,
            "records": published.flow_records + published.overflow_records,
            "batches": published.batches,
            "closing_records": published.closings,
            "dropped": {"kernel": witness.dropped},
            "longest_close_stall_us": published.longest_stall_us,
            "epoch": self.epoch,
            "time_shift_ms": self.time_shift_ms,
            "seconds": (self.seconds * 1e6).round() / 1e6,
        })
    }

    /// A few lines for a person.
    pub fn text(&self) -> String {
        let Outcome { tally, published, witness, .. } = &self.outcome;
        let line = |name: &str, volume: Volume| {
            format!("  {name:<22} {:>14} packets {:>18} octets\n", volume.packets, volume.octets)
        };
        let mut text = format!(
            "{} packets seen, {} captured, {} dropped by the kernel, in {:.3} s ({:.0} packets/s)\n",
            witness.offered,
            tally.captured.packets,
            witness.dropped,
            self.seconds,
            tally.captured.packets as f64 / self.seconds.max(1e-9),
        );
        text += &line("in flow records", published.flow);
        text += &line("in overflow records", published.overflow);
        for (name, volume) in self.causes() {
            text += &line(&format!("not metered: {name}"), volume);
        }
        if tally.late.packets > 0 {
            text += &line("late (in the above)", tally.late);
        }
        text += &format!(
            "  {} flows, {} records in {} batches, {} closing records\n",
            tally.flows,
            published.flow_records + published.overflow_records,
            published.batches,
            published.closings,
        );
        if self.time_shift_ms != 0 {
            let moved = humantime::format_duration(Duration::from_secs(self.time_shift_ms.unsigned_abs() / 1000));
            let way = if self.time_shift_ms < 0 { "back" } else { "on" };
            text += &format!("  packet times moved {way} by {moved}\n");
        }
        text
    }

    fn causes(&self) -> impl Iterator<Item = (&'static str, Volume)> + '_ {
        let not_metered = &self.outcome.tally.not_metered;
        Cause::ALL
            .into_iter()
            .map(|cause| (cause.name(), not_metered[cause as usize]))
            .filter(|(_, volume)| volume.packets > 0)
    }
}
