//! A simulator of the agent from packets to messages: a simulated source, with a clock and counters, around the real
//! capturing thread, meter and publisher. One seed is one schedule; an oracle states the expected result.
//!
//! `cargo test` runs a few hundred seeds, `make simulate-agent SEEDS=20000` more. A failing seed prints how to repeat it
//! and the smallest schedule that still fails; add that to `tests/golden/agent/packets`, where it stays as a regression
//! test.

mod oracle;
mod schedule;
mod world;

use crate::line::state::RunState;
use crate::simulator;
use schedule::{Schedule, Step};

simulator::simulated!(Schedule, Step, "agent/packets", run);

fn run(schedule: &Schedule) -> Result<(), String> {
    let state = RunState::default();
    (0..schedule.workers).try_for_each(|worker| oracle::judge(schedule, worker, &world::run(schedule, worker, &state)))
}

#[test]
fn every_packet_is_published_once_in_its_interval_or_counted_under_a_cause() {
    simulator::run_seeds::<Schedule>(150, "make simulate-agent");
}
