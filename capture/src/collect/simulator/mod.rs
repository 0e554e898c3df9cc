//! A simulator of the collector: simulated exporters, a network that loses, repeats and reorders, and a clock, around the real
//! decoder, table, splitting, listening, saved states and closing records. One seed is one schedule; an oracle states the
//! expected result.
//!
//! `cargo test` runs a few hundred seeds, `make simulate-collector SEEDS=20000` more. A failing seed prints how to
//! repeat it and the smallest schedule that still fails; add that to `tests/golden/collector`, where it stays as a
//! regression test.

mod exporter;
mod oracle;
mod schedule;
mod world;

use schedule::{Schedule, Step};
use std::path::{Path, PathBuf};
use world::World;

/// The errors in a schedule's outcome.
fn failure(schedule: &Schedule) -> Option<String> {
    let folder = tempfile::tempdir_in(memory()).unwrap();
    // What panics is a failure like any other.
    let run = || oracle::judge(schedule, &World::run(schedule, folder.path()));
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
        Ok(judged) => judged.err(),
        Err(_) => Some("it panicked".to_owned()),
    }
}

/// States are saved often, so they go to a file system in memory if there is one.
fn memory() -> PathBuf {
    let shm = PathBuf::from("/dev/shm");
    if shm.is_dir() { shm } else { std::env::temp_dir() }
}

/// The smallest schedule that fails in the same way: steps are removed as long as it still fails.
fn shrunk(schedule: &Schedule) -> Schedule {
    let kind = |why: String| -> String { why.chars().filter(|of| of.is_alphabetic()).take(16).collect() };
    let first = failure(schedule).map(kind);
    let fails = |less: &Schedule| failure(less).map(kind) == first;
    let mut least = schedule.clone();
    let mut at_once = least.steps.len() / 2;
    while at_once > 0 {
        let mut from = 0;
        while from < least.steps.len() {
            let to = (from + at_once).min(least.steps.len());
            let mut less = least.clone();
            less.steps.drain(from..to);
            if fails(&less) {
                least = less;
            } else {
                from = to;
            }
        }
        at_once /= 2;
    }
    for exporter in 0..least.exporters.len() {
        let silent = |step: &Step| match step {
            Step::Send { exporter: of, .. } | Step::Restart { exporter: of, .. } => *of != exporter,
            _ => true,
        };
        let mut less = least.clone();
        less.steps.retain(silent);
        if less.steps.len() < least.steps.len() && fails(&less) {
            least = less;
        }
    }
    least
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn every_record_is_published_once_or_counted_under_a_cause() {
    let (from, seeds) = (number("SEED", 1), number("SEEDS", if std::env::var("SEED").is_ok() { 1 } else { 300 }));
    let mut failed = Vec::new();
    for seed in from..from + seeds {
        let schedule = Schedule::of(seed);
        if let Some(why) = failure(&schedule) {
            failed.push((seed, why));
        }
    }
    let Some((seed, why)) = failed.first() else { return };
    let least = shrunk(&Schedule::of(*seed));
    let list: Vec<String> = failed.iter().take(60).map(|(seed, why)| format!("  {seed}: {why:.300}")).collect();
    panic!(
        "{} of {seeds} seeds fail\n{}\n\nseed {seed}: {why}\nagain: make simulate-collector SEED={seed}\nat least: {}\n{}",
        failed.len(),
        list.join("\n"),
        failure(&least).unwrap_or_default(),
        serde_json::to_string(&least).unwrap()
    );
}

#[test]
fn what_failed_once_does_not_fail_again() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/collector");
    let mut traces: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    traces.sort();
    for path in traces {
        let schedule: Schedule = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(failure(&schedule), None, "{}", path.display());
    }
}

#[test]
fn schedules_have_reports_for_closing_records_to_count() {
    let reports = (1..=30).map(|seed| {
        let folder = tempfile::tempdir_in(memory()).unwrap();
        World::run(&Schedule::of(seed), folder.path()).closed.reports
    });
    assert!(reports.sum::<u64>() > 0);
}
