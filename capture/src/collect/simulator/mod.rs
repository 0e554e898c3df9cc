//! A simulator of the collector: simulated exporters, a network that loses, repeats and reorders, and a clock that steps, around the real
//! decoder, table, splitting, listening, saved states and closing records. One seed is one schedule; an oracle states the
//! expected result.
//!
//! `cargo test` runs a few hundred seeds, `make simulate-collector SEEDS=20000` more. A failing seed prints how to
//! repeat it and the smallest schedule that still fails; add that to `tests/golden/collector`, where it stays as a
//! regression test.

mod exporter;
mod oracle;
mod reader;
mod schedule;
mod world;

use crate::simulator;
use schedule::{Schedule, Step};
use world::World;

simulator::simulated!(Schedule, Step, "collector", run, without);

fn run(schedule: &Schedule) -> Result<(), String> {
    let folder = tempfile::tempdir_in(simulator::memory()).unwrap();
    oracle::judge(schedule, &World::run(schedule, folder.path()))
}

/// The schedule without all steps of an exporter.
fn without(schedule: &Schedule, exporter: usize) -> Option<Schedule> {
    let others = |step: &Step| match step {
        Step::Send { exporter: of, .. } | Step::Restart { exporter: of, .. } => *of != exporter,
        _ => true,
    };
    let mut less = schedule.clone();
    less.steps.retain(others);
    (exporter < schedule.exporters.len()).then_some(less)
}

#[test]
fn every_record_is_published_once_or_counted_under_a_cause() {
    simulator::run_seeds::<Schedule>(300, "make simulate-collector");
}

#[test]
fn schedules_have_reports_for_closing_records_to_count() {
    let reports = (1..=30).map(|seed| {
        let folder = tempfile::tempdir_in(simulator::memory()).unwrap();
        World::run(&Schedule::draw(seed), folder.path()).closed.reports
    });
    assert!(reports.sum::<u64>() > 0);
}
