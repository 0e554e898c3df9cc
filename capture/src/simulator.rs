//! Parts that all simulators share: they run seeds, shrink a failing schedule, and repeat the golden ones.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// The script of one simulation, drawn from a seed. Any step can be removed, and the schedule stays valid.
pub trait Simulated: Clone + Serialize + DeserializeOwned {
    type Step;

    fn of(seed: u64) -> Self;

    fn steps(&mut self) -> &mut Vec<Self::Step>;

    /// Runs it, and compares the outcome with the expected one.
    ///
    /// # Errors
    /// The differences.
    fn run(&self) -> Result<(), String>;

    /// The schedule without all steps of one participant; `None` if there is no participant of this number.
    fn without(&self, _: usize) -> Option<Self> {
        None
    }
}

/// Makes a schedule, which has a function `draw` and a field `steps`, a [`Simulated`]. `$run` runs one, and `$without`
/// leaves a participant out. A test runs those in the folder `$golden` of `tests/golden` again.
macro_rules! simulated {
    ($schedule:ty, $step:ty, $golden:literal, $run:expr $(, $without:expr)?) => {
        impl $crate::simulator::Simulated for $schedule {
            type Step = $step;

            fn of(seed: u64) -> Self {
                Self::draw(seed)
            }

            fn steps(&mut self) -> &mut Vec<$step> {
                &mut self.steps
            }

            fn run(&self) -> Result<(), String> {
                $run(self)
            }

            $(
                fn without(&self, participant: usize) -> Option<Self> {
                    $without(self, participant)
                }
            )?
        }

        #[test]
        fn what_failed_once_does_not_fail_again() {
            $crate::simulator::run_golden::<$schedule>($golden);
        }
    };
}
pub(crate) use simulated;

/// The errors in a schedule's outcome; a panic is an error like any other.
pub fn failure(schedule: &impl Simulated) -> Option<String> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| schedule.run())) {
        Ok(judged) => judged.err(),
        Err(_) => Some("it panicked".to_owned()),
    }
}

/// A folder for files that are written often: in memory, if there is a file system there.
pub fn memory() -> PathBuf {
    let shm = PathBuf::from("/dev/shm");
    if shm.is_dir() { shm } else { std::env::temp_dir() }
}

/// The smallest schedule that fails in the same way: steps are removed as long as it still fails.
fn shrunk<S: Simulated>(schedule: &S) -> S {
    let kind = |why: String| -> String { why.chars().filter(|of| of.is_alphabetic()).take(16).collect() };
    let first = failure(schedule).map(kind);
    let fails = |less: &S| failure(less).map(kind) == first;
    let mut least = schedule.clone();
    let mut at_once = least.steps().len() / 2;
    while at_once > 0 {
        let mut from = 0;
        while from < least.steps().len() {
            let to = (from + at_once).min(least.steps().len());
            let mut less = least.clone();
            less.steps().drain(from..to);
            if fails(&less) {
                least = less;
            } else {
                from = to;
            }
        }
        at_once /= 2;
    }
    let mut number = 0;
    while let Some(mut less) = least.without(number) {
        if less.steps().len() < least.steps().len() && fails(&less) {
            least = less;
        }
        number += 1;
    }
    least
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs the seeds that the environment names (`SEED`, `SEEDS`), or the first `default`; `again` is the command that
/// repeats one.
///
/// # Panics
/// If one fails, with the smallest schedule that fails in the same way.
pub fn run_seeds<S: Simulated>(default: u64, again: &str) {
    let (from, seeds) = (number("SEED", 1), number("SEEDS", if std::env::var("SEED").is_ok() { 1 } else { default }));
    let failed: Vec<(u64, String)> =
        (from..from + seeds).filter_map(|seed| Some((seed, failure(&S::of(seed))?))).collect();
    let Some((seed, why)) = failed.first() else { return };
    let least = shrunk(&S::of(*seed));
    let list: Vec<String> = failed.iter().take(60).map(|(seed, why)| format!("  {seed}: {why:.300}")).collect();
    panic!(
        "{} of {seeds} seeds fail\n{}\n\nseed {seed}: {why}\nagain: {again} SEED={seed}\nat least: {}\n{}",
        failed.len(),
        list.join("\n"),
        failure(&least).unwrap_or_default(),
        serde_json::to_string(&least).unwrap()
    );
}

/// Runs the schedules in a folder of `tests/golden`, each of which failed once.
///
/// # Panics
/// If one fails again.
pub fn run_golden<S: Simulated>(folder: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder);
    let mut traces: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    traces.sort();
    for path in traces {
        let schedule: S = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(failure(&schedule), None, "{}", path.display());
    }
}
